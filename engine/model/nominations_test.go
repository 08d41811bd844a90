package model_test

import (
	"maps"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// Pods are promised nodes that are not ready yet, and nodes they were promised before; running pods and placeholders
// are promised nothing.
func TestPromises(t *testing.T) {
	key := func(name string) model.PodKey { return model.PodKey{Namespace: "default", Name: name, UID: name} }
	pod := func(name string, change func(*model.Pod)) model.Pod {
		p := model.Pod{PodKey: key(name)}
		if change != nil {
			change(&p)
		}
		return p
	}
	s := &model.Snapshot{
		Pending: []model.Pod{
			pod("new", nil), pod("flies", nil), pod("fits", nil), pod("stays", func(p *model.Pod) { p.Nominated = "ready" }),
			pod("leaves", func(p *model.Pod) { p.From = "going" }), pod("room", func(p *model.Pod) { p.Virtual = true }),
			pod("failed", nil),
		},
		Nodes: []model.Node{
			{Name: "flying", Claim: "flying", State: model.InFlight},
			{Name: "ready", Claim: "claim-ready", State: model.Initialized},
			{Name: "foreign", State: model.Registered},
		},
	}
	p := &model.Plan{
		Launches: []model.Launch{
			{ID: "1", Pods: []model.PodKey{key("new"), key("leaves"), key("room")}},
			{ID: "2", Pods: []model.PodKey{key("failed")}},
		},
		Placements: []model.Placement{
			{Pod: key("flies"), Node: "flying"},
			{Pod: key("fits"), Node: "ready"},
			{Pod: key("stays"), Node: "ready"},
		},
	}
	got := p.PendingClaims(s, map[string]string{"1": "claim-1"})
	if want := map[model.PodKey]string{
		key("new"): "claim-1", key("flies"): "flying",
		key("stays"): "claim-ready",
	}; !maps.Equal(got, want) {
		t.Errorf("promised are %v, want %v", got, want)
	}
	if got := new(model.Plan).PendingClaims(s, nil); got != nil {
		t.Errorf("an empty plan promises %v", got)
	}
}
