package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
)

// seedOverlay makes the DaemonSet of the seed's cluster.
const seedOverlay = "examples/seed/kubernetes"

// objects are what of a rendered text makes a pod.
type objects struct {
	daemonSet appsv1.DaemonSet
	config    corev1.ConfigMap
}

func read(t *testing.T, text string) (o objects) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		var err error
		switch kind.Kind {
		case "DaemonSet":
			err = yaml.UnmarshalStrict([]byte(document), &o.daemonSet)
		case "ConfigMap":
			err = yaml.UnmarshalStrict([]byte(document), &o.config)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// pod is a node's pod of the DaemonSet.
type pod struct {
	container
	objects objects
}

// newPod makes what kubelet makes of the DaemonSet on a node: volumes, variables,
// credentials, and exactly the capabilities that are added to none.
func newPod(t *testing.T, images string, n *lab.Node, o objects, api *kubeapi.Server, token string) *pod {
	t.Helper()
	p := &pod{container{t: t, node: n, name: "netclassd-pod"}, o}
	template := &o.daemonSet.Spec.Template.Spec
	c := &template.Containers[0]
	security := c.SecurityContext
	if len(security.Capabilities.Drop) != 1 || security.Capabilities.Drop[0] != "ALL" || *security.RunAsUser != 0 ||
		!*security.ReadOnlyRootFilesystem || *security.AllowPrivilegeEscalation || security.Privileged != nil ||
		template.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || !template.HostNetwork || template.HostPID {
		t.Errorf("security context %+v", security)
	}
	s := &spec{
		root: unpack(t, filepath.Join(images, "netclassd.oci")), args: append([]string{"/usr/local/bin/netclassd"}, c.Args...),
		env: []string{"PATH=/usr/local/bin"}, forbidden: forbiddenToMost,
	}
	for _, name := range security.Capabilities.Add {
		s.capabilities = append(s.capabilities, "CAP_"+string(name))
	}
	for _, e := range c.Env {
		switch {
		case e.Name == "KUBERNETES_SERVICE_PORT": // where this machine's API server is
			e.Value = api.URL()[strings.LastIndex(api.URL(), ":")+1:]
		case e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "spec.nodeName":
			e.Value = n.Name
		case e.ValueFrom != nil:
			t.Fatalf("variable %s: %+v", e.Name, e.ValueFrom)
		}
		s.env = append(s.env, e.Name+"="+e.Value)
	}
	for _, m := range c.VolumeMounts {
		options := []string{"rw"}
		if m.ReadOnly {
			options = []string{"ro"}
		}
		s.mounts = append(s.mounts, bind(p.volume(template, m.Name), m.MountPath, options...))
	}
	p.files("account", map[string]string{"token": token, "namespace": "netclass", "ca.crt": certificate(t, api)})
	s.mounts = append(s.mounts, bind(n.File("pod/account"), "/var/run/secrets/kubernetes.io/serviceaccount", "ro"))
	p.spec = s
	return p
}

// volume makes a volume and returns its folder.
func (p *pod) volume(template *corev1.PodSpec, name string) string {
	p.t.Helper()
	for _, v := range template.Volumes {
		switch {
		case v.Name != name:
		case v.HostPath != nil && *v.HostPath.Type == corev1.HostPathDirectoryOrCreate:
			return p.files("host"+v.HostPath.Path, nil)
		case v.ConfigMap != nil && v.ConfigMap.Name == p.objects.config.Name:
			return p.files(name, p.objects.config.Data)
		case v.Secret != nil && *v.Secret.Optional:
			return p.files(name, nil) // there is none
		default:
			p.t.Fatalf("volume %+v", v)
		}
	}
	p.t.Fatalf("the pod has no volume %s", name)
	return ""
}

// files makes a folder with files, as kubelet makes volumes, and returns its path.
func (p *pod) files(name string, data map[string]string) string {
	p.t.Helper()
	dir := p.node.File(filepath.Join("pod", name))
	err := os.MkdirAll(dir, 0o755)
	for file, text := range data {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// probes are what kubelet asks.
func (p *pod) probes() map[string]*corev1.Probe {
	c := &p.objects.daemonSet.Spec.Template.Spec.Containers[0]
	return map[string]*corev1.Probe{"startup probe": c.StartupProbe, "liveness probe": c.LivenessProbe, "readiness probe": c.ReadinessProbe}
}

// probe runs a probe of the DaemonSet.
func (p *pod) probe(probe *corev1.Probe) error {
	command := probe.Exec.Command
	if command[0] != "/usr/local/bin/netclassctl" {
		return fmt.Errorf("the probe runs %s", command[0])
	}
	_, err := p.ctl(command[1:]...)
	return err
}

// certificate returns that of the authority which the API server's is from.
func certificate(t *testing.T, api *kubeapi.Server) string {
	t.Helper()
	text, err := os.ReadFile(api.Kubeconfig(t.TempDir(), ""))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Data []byte `json:"certificate-authority-data"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.Clusters) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return string(config.Clusters[0].Cluster.Data)
}
