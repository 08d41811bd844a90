package view_test

import (
	"slices"
	"testing"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

func TestAFewLettersNamePodsAndNamespaces(t *testing.T) {
	m, _ := viewtest.Cluster(12, 3)
	m.SetPod(&view.Pod{UID: "a", Namespace: "Web-tools", Name: "cron"})
	m.SetPod(&view.Pod{UID: "b", Namespace: "web-old", Name: "gone", Phase: view.Ended})
	namespaces, pods := m.Names("WEB", 4)
	want := []view.PodName{{"shop", "web-0-0", viewtest.NodeName(0)}, {"shop", "web-0-1", viewtest.NodeName(0)}}
	if !slices.Equal(namespaces, []string{"Web-tools"}) || len(pods) != 4 || !slices.Equal(pods[:2], want) {
		t.Errorf("namespaces %q, pods %v", namespaces, pods)
	}
	if _, pods = m.Names("shop 11-2", 4); !slices.Equal(pods, []view.PodName{{"shop", "web-11-2", viewtest.NodeName(11)}}) {
		t.Errorf("pods %v", pods)
	}
	if namespaces, pods = m.Names("  ", 4); len(namespaces)+len(pods) != 0 {
		t.Errorf("nothing names %v and %v", namespaces, pods)
	}
}
