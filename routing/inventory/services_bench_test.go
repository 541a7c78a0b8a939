package inventory_test

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// BenchmarkKubernetesServices reads 5,000 Services of type LoadBalancer, every
// fifth of policy Local, and 20,000 EndpointSlices with ten endpoints each.
func BenchmarkKubernetesServices(b *testing.B) {
	const services, slices = 5000, 20000
	s := kubeapi.Start(b)
	s.Apply(nodeYAML("node-0", "", ""))
	each(b, services, func(n int) error { return post(s, "/api/v1/namespaces/default/services", manyService(n)) })
	each(b, slices, func(n int) error {
		return post(s, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", manySlice(n, n%services))
	})
	kubeconfig := s.Kubeconfig(b.TempDir(), kubeapi.Admin)
	for b.Loop() {
		b.StopTimer()
		before := heap()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak anew
			b.Fatal(err)
		}
		resident := self(b, "VmRSS")
		b.StartTimer()
		w := watching(b, inventory.KubernetesOptions{
			Kubeconfig: kubeconfig, Services: true, PodCIDRs: "node", Log: slog.New(slog.DiscardHandler),
		})
		for !w.Inventory().ServicesSynced {
			time.Sleep(10 * time.Millisecond)
		}
		b.StopTimer()
		i := w.Inventory()
		if len(i.Services) != services || len(i.Services[0].Nodes) == 0 {
			b.Fatalf("%d services, the first with %d nodes", len(i.Services), len(i.Services[0].Nodes))
		}
		time.Sleep(4 * time.Second) // memory is given back then
		b.ReportMetric(self(b, "VmHWM")-resident, "MB-at-most")
		b.ReportMetric(self(b, "VmRSS")-resident, "MB-resident")
		b.ReportMetric(heap()-before, "MB-heap")
		b.ReportMetric(leave(s, w, services, slices).Seconds()*1000, "ms-until-told")
		w.stop()
		b.StartTimer()
	}
}

// leave takes all EndpointSlices of the first Service away, returns how long the
// inventory took to have it, and makes them again.
func leave(s *kubeapi.Server, w *watched, services, slices int) time.Duration {
	const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	for n := 0; n < slices; n += services {
		s.Do("DELETE", fmt.Sprintf("%s/service-00000-%d", path, n), "", nil)
	}
	begun := time.Now()
	w.until("gone", func(i *routing.Inventory) bool { return len(i.Services[0].Nodes) == 0 })
	took := time.Since(begun)
	for n := 0; n < slices; n += services {
		s.Do("POST", path, "", manySlice(n, 0))
	}
	return took
}

// each calls do for 0 to count-1, some at a time.
func each(b *testing.B, count int, do func(n int) error) {
	b.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for n := range next {
				if err := do(n); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for n := range count {
		next <- n
	}
	close(next)
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

func post(s *kubeapi.Server, path string, object any) error {
	status, answer, err := s.Request(kubeapi.Admin, "POST", path, "", object)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("POST %s: status %d: %s", path, status, answer)
	}
	return err
}

func manyService(n int) any {
	policy := "Cluster"
	if n%5 == 0 {
		policy = "Local"
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{
			"name":   fmt.Sprintf("service-%05d", n),
			"labels": map[string]any{"app.kubernetes.io/name": fmt.Sprint("application-", n), "app.kubernetes.io/managed-by": "Helm"},
		},
		"spec": map[string]any{
			"type": "LoadBalancer", "externalTrafficPolicy": policy, "allocateLoadBalancerNodePorts": false,
			"selector": map[string]any{"app.kubernetes.io/name": fmt.Sprint("application-", n)},
			"ports":    []any{map[string]any{"name": "http", "port": 80}, map[string]any{"name": "https", "port": 443}},
		},
	}
}

func manySlice(n, service int) any {
	var endpoints []any
	for e := range 10 {
		endpoints = append(endpoints, map[string]any{
			"addresses": []any{fmt.Sprintf("10.%d.%d.%d", n/250%250, n%250, e)}, "nodeName": fmt.Sprintf("node-%03d.example.org", (n*7+e)%500),
			"conditions": map[string]any{"ready": true, "serving": true, "terminating": false}, "zone": "zone-1",
			"targetRef": map[string]any{"kind": "Pod", "namespace": "default", "name": fmt.Sprintf("application-%d-%d", n, e), "uid": fmt.Sprintf("%08d-0000-0000-0000-%012d", n, e)},
		})
	}
	return map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
		"metadata": map[string]any{"name": fmt.Sprintf("service-%05d-%d", service, n), "labels": map[string]any{
			"kubernetes.io/service-name":             fmt.Sprintf("service-%05d", service),
			"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
		}},
		"ports": []any{map[string]any{"name": "http", "port": 8080, "protocol": "TCP"}},
	}
}

// heap returns what is alive on the heap, in MB of 2^20 bytes.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// self returns what a line of this process's status says, in MB of 2^20 bytes.
func self(b *testing.B, line string) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + line + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		b.Fatalf("no %s in %s", line, strings.Fields(string(text))[1])
	}
	kB, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kB / 1024
}
