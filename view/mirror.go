package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Allow is what a user may see of a cluster: whole kinds, and pods of all namespaces or of some.
type Allow struct {
	Nodes, Claims, Pools, Events, Pods bool
	Namespaces                         []string // whose pods may be seen, if not all
}

// mirror follows a Model with a Model of what is allowed.
type mirror struct {
	to         *Model
	allow      Allow
	namespaces map[string]bool
	named      map[string]int // number of pods on each Node that may not be seen, by its name
}

// Mirror returns a Model of what is allowed, which follows m until stop is called. Its notes say what is left out. If
// Nodes are not allowed, those that pods name are known only by name.
func (m *Model) Mirror(a Allow) (out *Model, stop func()) {
	to, err := New(m.resources)
	if err != nil {
		panic(err) // they were valid for m
	}
	f := &mirror{to: to, allow: a, namespaces: map[string]bool{}, named: map[string]int{}}
	for _, n := range a.Namespaces {
		f.namespaces[n] = true
	}
	f.notes()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.entries {
		if x.claim != nil {
			f.claim(x.claim)
		}
		if x.node != nil {
			f.node(x.node)
		}
	}
	for _, p := range m.pools {
		f.pool(p)
	}
	for _, o := range m.pods.List() {
		f.pod(o.(*Pod))
	}
	for about, s := range m.said {
		f.say(about, s)
	}
	for source, text := range m.notes {
		to.Note(source, text)
	}
	if m.mirrors == nil {
		m.mirrors = map[*mirror]struct{}{}
	}
	m.mirrors[f] = struct{}{}
	return to, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.mirrors, f)
	}
}

// tell applies a change to all mirrors. The lock is held, so that they see changes in order; a mirror never calls
// back.
func (m *Model) tell(change func(*mirror)) {
	for f := range m.mirrors {
		change(f)
	}
}

// Namespaces returns the namespaces that have pods.
func (m *Model) Namespaces() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]bool{}
	for _, o := range m.pods.List() {
		if p := o.(*Pod); p.Phase != Ended {
			all[p.Namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// notes says what is left out.
func (f *mirror) notes() {
	var kinds []string
	for _, k := range []struct {
		is   bool
		name string
	}{
		{f.allow.Nodes, "nodes (only the names of those with your pods are known)"},
		{f.allow.Claims, "nodeclaims.karpenter.sh"},
		{f.allow.Pools, "nodepools.karpenter.sh"},
		{f.allow.Events, "events"},
	} {
		if !k.is {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) > 0 {
		f.to.Note("allowed", "not shown, because you may not list them: "+strings.Join(kinds, ", "))
	}
	switch n := len(f.allow.Namespaces); {
	case f.allow.Pods:
	case n == 0:
		f.to.Note("allowed pods", "no pods are shown or counted: you may not list those of any namespace")
	default:
		f.to.Note("allowed pods",
			fmt.Sprintf("only pods of %s are shown and counted: you may not list those of other namespaces",
				few(f.allow.Namespaces)))
	}
}

func few(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d namespaces more", len(names)-5)
	}
	return strings.Join(names, ", ")
}

func (f *mirror) node(n *Node) {
	if f.allow.Nodes {
		f.to.SetNode(n)
	}
}

// unnode removes a Node. If Nodes may not be seen, it remains as long as pods name it.
func (f *mirror) unnode(name string) {
	if f.allow.Nodes {
		f.to.DeleteNode(name)
	}
}

func (f *mirror) claim(c *Claim) {
	if f.allow.Claims {
		f.to.SetClaim(c)
	}
}

func (f *mirror) pool(p *Pool) {
	if f.allow.Pools {
		f.to.SetPool(p)
	}
}

func (f *mirror) say(about Object, s Said) {
	if f.allow.Events && (about.Kind != "Pod" || f.sees(about.Namespace)) {
		f.to.Say(about, s)
	}
}

func (f *mirror) sees(namespace string) bool { return f.allow.Pods || f.namespaces[namespace] }

func (f *mirror) pod(p *Pod) {
	if !f.sees(p.Namespace) {
		return
	}
	before := f.to.podOf(p.UID)
	f.to.SetPod(p)
	f.moved(before, p)
}

func (f *mirror) unpod(uid string) {
	before := f.to.podOf(uid)
	f.to.DeletePod(uid)
	f.moved(before, nil)
}

// moved keeps Nodes that may not be seen for as long as pods name them.
func (f *mirror) moved(before, after *Pod) {
	if !f.allow.Nodes {
		f.places(after, +1)
		f.places(before, -1)
	}
}

// places counts the pods that name a Node that may not be seen.
func (f *mirror) places(p *Pod, by int) {
	if p == nil || p.Node == "" || p.Phase == Ended {
		return
	}
	switch f.named[p.Node] += by; {
	case f.named[p.Node] == 0:
		delete(f.named, p.Node)
		f.to.DeleteNode(p.Node)
	case f.named[p.Node] == 1 && by > 0:
		f.to.SetNode(&Node{Name: p.Node, Unknown: true, Ready: true})
	}
}
