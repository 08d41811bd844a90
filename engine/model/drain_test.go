package model

import (
	"testing"
	"time"
)

func TestPodsOfRemovedNodesArePending(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pod := func(name string, age time.Duration) Pod {
		return Pod{PodKey: PodKey{Namespace: "default", Name: name, UID: name}, Created: at.Add(-age)}
	}
	s := &Snapshot{
		Now: at, Shapes: []Shape{{Requests: Resources{CPU: 100, Pods: 1}}},
		Pending: []Pod{pod("waits", time.Minute)},
		Nodes: []Node{
			{Name: "goes", Used: Resources{CPU: 700, Pods: 7}, Pods: []BoundPod{
				{Pod: pod("old", time.Hour)},
				{Pod: pod("young", time.Second)},
				{Pod: pod("daemon", time.Hour), Daemon: true},
				{Pod: pod("done", time.Hour), Terminal: true},
				{Pod: pod("leaving", time.Hour), Terminating: true},
				{Pod: pod("held", time.Hour), EvictionBlocked: "PodDisruptionBudget default/one allows no eviction"},
				{Pod: pod("sacred", time.Hour), DoNotDisrupt: true},
			}},
			{Name: "stays", Pods: []BoundPod{{Pod: pod("other", time.Hour)}}},
		},
	}
	out := s.Draining(map[string]bool{"goes": true})
	var waiting string
	for _, p := range out.Pending {
		waiting += p.Name + "@" + p.From + " "
	}
	if want := "old@goes waits@ young@goes "; waiting != want {
		t.Errorf("waiting: %s, want %s", waiting, want)
	}
	goes, stays := &out.Nodes[0], &out.Nodes[1]
	if !goes.Deleting || len(goes.Pods) != 5 || goes.Used[CPU] != 500 || stays.Deleting || len(stays.Pods) != 1 {
		t.Errorf("after: %+v, %+v", goes, stays)
	}
	if len(s.Pending) != 1 || s.Nodes[0].Deleting || len(s.Nodes[0].Pods) != 7 || s.Nodes[0].Used[CPU] != 700 {
		t.Errorf("the snapshot itself changed: %+v", s.Nodes[0])
	}
}
