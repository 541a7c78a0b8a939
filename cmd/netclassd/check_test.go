package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/routing"
)

// checked is what `check` prints of a configuration and a nodes file beside it.
func checked(t *testing.T, config, nodes, node string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	for name, text := range map[string]string{"config.yaml": config, "nodes.yaml": nodes} {
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"check", file, "--node", node})
	err := cmd.Execute()
	return strings.ReplaceAll(out.String(), dir+"/", ""), err
}

// What a daemon would refuse to run is refused.
func TestCheckRefusesWhatIsNotBuilt(t *testing.T) {
	out, err := checked(t, "apiVersion: netclass.dev/v1alpha1\nmetrics: {listen: 127.0.0.1:9100}\n", "", "")
	if e, ok := errors.AsType[exitError](err); !ok || e.code != exitConfig || !strings.Contains(out, "2:19: error: metrics are not built yet: leave listen empty") {
		t.Errorf("%v, got\n%s", err, out)
	}
}

// A password file that is not here may be where the daemon runs: it is said, and no more.
func TestCheckNotesPasswords(t *testing.T) {
	out, err := checked(t, `apiVersion: netclass.dev/v1alpha1
bgp: {asn: 64512, upstreams: [{name: a, link: l, peerASN: 64513, address: {ipv4: 192.0.2.1}, passwordFile: gone}]}
`, "", "")
	if err != nil || !strings.Contains(out, "config.yaml: note: on this machine: read password: open gone: no such file or directory: sessions that need it would wait\n") {
		t.Errorf("%v, got\n%s", err, out)
	}
}

// TestCheckNoFile: who has a file checked that is not there is told so by the exit code
// that the help names.
func TestCheckNoFile(t *testing.T) {
	cmd := command()
	cmd.SetArgs([]string{"check", "/nonexistent/config.yaml"})
	err := cmd.Execute()
	if e, ok := errors.AsType[exitError](err); !ok || e.code != exitConfig {
		t.Errorf("%v", err)
	}
}

func TestLeftover(t *testing.T) {
	k := &routing.Kernel{
		Rules: []routing.Rule{
			{Priority: 0, Protocol: routing.ProtocolKernel}, {Priority: 1001, Protocol: routing.ProtocolNetclass},
			{Priority: 1003, Protocol: 150}, {Priority: 1003, Protocol: 151},
		},
		Routes: []routing.Route{{Table: 254, Protocol: routing.ProtocolBoot}},
	}
	if got, want := leftover(routing.Ownership{Protocols: []routing.Protocol{150}}, k), "2 rules at priorities 1001, 1003 of netclassd's protocol number"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	k.Routes = append(k.Routes, routing.Route{Table: 47, Protocol: routing.ProtocolNetclass}, routing.Route{Table: 47, Protocol: routing.ProtocolNetclass},
		routing.Route{Table: routing.MainID, Protocol: routing.ProtocolNetclass})
	if got, want := leftover(routing.Ownership{}, k), "1 rule at priority 1001 and 3 routes in tables 47, main of netclassd's protocol number"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := leftover(routing.Ownership{}, &routing.Kernel{}); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}

// TestCheckAgainstNodes: a configuration and a nodes file may each be valid and
// not fit.
func TestCheckAgainstNodes(t *testing.T) {
	config := `apiVersion: netclass.dev/v1alpha1
networks: {pods: [10.244.0.0/16]}
tables:
  - name: t
    id: 9
    routes:
      default: {link: a, gateway: {ipv4: {annotation: gw}}}
      peers: {link: a, learn: nodes}
    fence: [pods]
cluster: {nodesFile: nodes.yaml, addresses: {a: {ipv4: {annotation: a4}}}}
`
	nodes := `nodes:
  - {name: one, podCIDRs: [10.244.1.0/24], internalIPs: [10.46.0.1], annotations: {a4: 10.48.0.1}}
  - {name: two, podCIDRs: [10.244.1.128/25], internalIPs: [10.46.0.1], annotations: {a4: 10.48.0.1}}
  - {name: three, podCIDRs: [10.245.0.0/24], internalIPs: [10.46.0.3], annotations: {a4: 10.48.0.x}}
  - {name: four, internalIPs: [10.46.0.4]}
`
	config += "bgp: {asn: 64512, upstreams: [{name: u, link: a, peerASN: 1, address: {ipv4: 192.0.2.1}, advertise: {networks: [lan]}}]}\n"
	config = strings.Replace(config, "networks: {", "networks: {lan: [10.245.0.0/16], ", 1)
	for node, wants := range map[string][]string{
		"": {
			"upstream u is told of 10.245.0.0/16 (lan), in which pods of node three are: what comes in for them and is another node's would be stopped",
			"nodes one and two have the same InternalIP 10.46.0.1",
			"nodes one and two have the same address 10.48.0.1 (a4)",
			`node three: annotation a4 is not an ipv4 address: "10.48.0.x"`,
			"the default of table t needs the annotation gw, which no node carries (they carry a4)",
			"node three: pod CIDR 10.245.0.0/24 is outside the network pods",
			"nodes one and two: pod CIDRs 10.244.1.0/24 and 10.244.1.128/25 share addresses",
			"node four has no annotation a4, which cluster.addresses.a needs",
			"node four has no pod CIDR: nothing would lead to its pods",
		},
		"One": {`node "One" is not in the nodes file (there are four, one, three, two): names are compared exactly`},
		"one": {"node one has no annotation gw"},
	} {
		out, err := checked(t, config, nodes, node)
		for _, want := range wants {
			if err != nil || !strings.Contains(out, "nodes.yaml: warning: "+want) {
				t.Errorf("--node %s: %v, nothing says %q in\n%s", node, err, want, out)
			}
		}
	}
	if out, err := checked(t, nodes, "", ""); err == nil || !strings.Contains(err.Error(), "looks like a nodes file") {
		t.Errorf("%v, got\n%s", err, out)
	}
}

// TestExamplesFit: what the examples say of their nodes gives no warning.
func TestExamplesFit(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", "examples", "seed", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, name := range []string{"config.yaml", "config-two-tables.yaml"} {
		config := strings.Replace(read(name), "kubernetes: {kubeconfig: /etc/netclassd/kubeconfig}", "nodesFile: nodes.yaml", 1)
		if out, err := checked(t, config, read("nodes.yaml"), "k8s-1"); err != nil || strings.Contains(out, "nodes.yaml: warning") || !strings.Contains(out, "3 nodes") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
