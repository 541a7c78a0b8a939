package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	pb "netclass.dev/proto/netclass/v1"
)

func TestTicker(t *testing.T) {
	t.Parallel()
	class := func(name string, h pb.Health) *pb.WatchResponse {
		return &pb.WatchResponse{Event: &pb.WatchResponse_Upsert{Upsert: &pb.Object{Name: "classes/" + name, Value: &pb.Object_Class{Class: &pb.Class{Name: name, Health: h, Link: "pod0"}}}}}
	}
	condition := func(object, reason string) *pb.WatchResponse {
		return &pb.WatchResponse{Event: &pb.WatchResponse_Upsert{Upsert: &pb.Object{
			Name:  "conditions/" + object + "/" + reason,
			Value: &pb.Object_Condition{Condition: &pb.Condition{Object: object, Reason: reason, Message: "m"}},
		}}}
	}
	events := []*pb.WatchResponse{
		class("pod-pod", pb.Health_HEALTH_READY),
		class("a-class-with-a-name-of-forty-characters1", pb.Health_HEALTH_READY),
		{Event: &pb.WatchResponse_Upsert{Upsert: &pb.Object{Name: "tables/47", Value: &pb.Object_Table{Table: &pb.Table{Id: 47, Name: "pods"}}}}},
		{Event: &pb.WatchResponse_Synced{Synced: &pb.Synced{}}},
		{Event: &pb.WatchResponse_Delete{Delete: "tables/47"}},
		condition("class/pod-pod", "NoCarrier"),
		condition("class/pod-pod", "NoCarrier"),
		class("pod-pod", pb.Health_HEALTH_WAITING),
		{Event: &pb.WatchResponse_Delete{Delete: "conditions/class/pod-pod/NoCarrier"}},
		{Event: &pb.WatchResponse_Delete{Delete: "peers/k8s-2/ipv4"}},
		condition("class/pod-pod", "NoCarrier"),
		condition("kernel", "AReasonThatIsLong#2"),
	}
	show := func(width int) []string {
		var out bytes.Buffer
		a := &app{env: Env{Out: &out, Width: width, Now: func() time.Time { return time.Unix(0, 0).UTC() }, Getenv: func(string) string { return "1" }}}
		k := &ticker{app: a, known: map[string]string{}}
		for i, e := range events {
			if err := k.show(e); err != nil {
				t.Fatal(err)
			}
			if out.Len() > 0 != (i > 2) {
				t.Errorf("after %d events the output is %q", i+1, out.String())
			}
		}
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	want := `TIME      EVENT   OBJECT                                          STATE        REASON
00:00:00  have    class/pod-pod                                   Ready        link pod0
00:00:00  have    class/a-class-with-a-name-of-forty-characters1  Ready        link pod0
00:00:00  have    table/pods                                      -            ipv4 0/0 ipv6 0/0
00:00:00  synced  -                                               -            -
00:00:00  gone    table/pods                                      -            -
00:00:00  add     class/pod-pod                                   NoCarrier    m
00:00:00  change  class/pod-pod                                   NoCarrier    m
00:00:00  change  class/pod-pod                                   Waiting      link pod0
00:00:00  gone    class/pod-pod                                   NoCarrier    -
00:00:00  gone    peer/k8s-2/ipv4                                 -            -
00:00:00  add     class/pod-pod                                   NoCarrier    m
00:00:00  add     kernel                                          AReasonThatIsLong#2  m`
	if got := strings.Join(show(0), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	lines := show(80)
	for i, line := range lines {
		if len([]rune(line)) > 80 {
			t.Errorf("wider than the terminal: %s", line)
		}
		if before, _, found := strings.Cut(line, "Ready"); found && len([]rune(before)) != strings.Index(lines[0], "STATE") {
			t.Errorf("line %d is out of its column: %s", i, line)
		}
	}
}
