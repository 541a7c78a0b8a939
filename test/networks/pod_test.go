package networks

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// inPod starts the daemon where a pod finds its service account: in a mount
// namespace that has it, in a folder that a kubelet has filled.
const inPod = `#!/bin/sh
exec unshare --mount sh -ec '
	mount -t tmpfs tmpfs /run
	mkdir -p /run/secrets/kubernetes.io/serviceaccount
	cp %q/* /run/secrets/kubernetes.io/serviceaccount/
	exec "$@"
' sh %q "$@"
`

// runInPods starts a netclassd as a pod on each node, with the credentials and the
// environment of one.
func (c *cluster) runInPods(config string) {
	c.t.Helper()
	need.Program(c.t, "unshare")
	api, err := url.Parse(c.api.URL())
	c.must(err)
	opts := lab.NetclassdOptions{
		Config: config, Binary: podProgram(c.t, c.kubeconfig),
		Env: []string{"KUBERNETES_SERVICE_HOST=" + api.Hostname(), "KUBERNETES_SERVICE_PORT=" + api.Port()},
	}
	for _, n := range c.Nodes {
		d, err := n.StartNetclassd(opts)
		c.must(err)
		c.daemons = append(c.daemons, d)
	}
}

// podProgram returns a program that starts the daemon as a pod with the
// credentials of a kubeconfig.
func podProgram(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	user, server := config.Contexts[config.CurrentContext].AuthInfo, config.Contexts[config.CurrentContext].Cluster
	top := t.TempDir()
	program, folder := filepath.Join(top, "netclassd"), filepath.Join(top, "serviceaccount")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	binary, err := filepath.Abs(lab.Built("netclassd"))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		filepath.Join(folder, "token"):     config.AuthInfos[user].Token,
		filepath.Join(folder, "ca.crt"):    string(config.Clusters[server].CertificateAuthorityData),
		filepath.Join(folder, "namespace"): "netclass",
		program:                            fmt.Sprintf(inPod, folder, binary),
	} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return program
}
