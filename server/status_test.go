package server_test

import (
	"strings"
	"testing"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
)

// TestCountedOutIsShown: what status does not count as ready has a row, with why.
func TestCountedOutIsShown(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	healths := []routing.Health{routing.Waiting, routing.Ready, routing.Shared, routing.Drained, routing.Degraded}
	for i := range st.Plan.Classes {
		c := &st.Plan.Classes[i]
		c.Health, c.Reason = healths[i%len(healths)], "because of "+c.Class.Name
	}
	st.Plan.Tables[0].Health, st.Plan.Tables[0].Reason = routing.Waiting, "something waits"
	st.Conditions = append(st.Conditions, routing.Condition{Object: "class/" + st.Plan.Classes[0].Class.Name, Reason: "Waiting", Message: "said already"})
	resp, err := api(t, servertest.Start(t, servertest.NewSource(st))).GetStatus(t.Context(), &pb.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, c := range resp.GetStatus().GetConditions() {
		kind, name, _ := strings.Cut(c.GetObject(), "/")
		if rows[kind]++; c.GetMessage() != "said already" && c.GetMessage() != "because of "+name && c.GetMessage() != "something waits" {
			t.Errorf("%v", c)
		}
	}
	s := resp.GetStatus()
	if out := int(s.GetClasses() - s.GetClassesReady()); rows["class"] != out || out == 0 {
		t.Errorf("%d rows of classes, %d are not ready", rows["class"], out)
	}
	if out := int(s.GetTables() - s.GetTablesReady()); rows["table"] != out || out == 0 {
		t.Errorf("%d rows of tables, %d are not ready", rows["table"], out)
	}
}

// TestNewerConfiguration: a file that has not been loaded is told of.
func TestNewerConfiguration(t *testing.T) {
	t.Parallel()
	text := "config.yaml has changed"
	s := server.New(server.Config{Source: servertest.NewSource(servertest.Healthy()), Unloaded: func() string { return text }})
	for _, want := range []int{1, 0} {
		resp, err := s.GetStatus(t.Context(), &pb.GetStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if c := resp.GetStatus().GetConditions(); len(c) != want || want > 0 && (c[0].GetObject() != "config" || c[0].GetMessage() != text) {
			t.Errorf("conditions %v", c)
		}
		text = ""
	}
}
