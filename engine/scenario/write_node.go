package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

var stateNames = map[model.NodeState]string{model.InFlight: "in-flight", model.Registered: "registered", model.Initialized: "initialized"}

func (w *writer) nodeLine(n *model.Node) *declaration {
	d := declare("node", quote(n.Name))
	d.amount("pool", n.Pool, "")
	d.amount("type", n.Type, "")
	d.amount("zone", n.Zone, "")
	d.amount("capacity-type", n.CapacityType, "")
	d.amount("price", dollars(n.Price), "0")
	d.amount("state", stateNames[n.State], "initialized")
	w.claim(d, n)
	w.size(d, n)
	d.group("taint", mapped(n.Taints, taintItem))
	d.amount("age", w.age(n.Created), time.Hour.String())
	d.amount("ready", w.age(n.Initialized), none)
	d.amount("event", w.age(n.LastPodEvent), none)
	d.amount("drifted-for", w.age(n.DriftedSince), none)
	if !n.Expires.IsZero() {
		d.amount("expires", n.Expires.Sub(w.s.Now).String(), "")
	}
	if !n.NominatedUntil.IsZero() {
		d.amount("nominated", n.NominatedUntil.Sub(w.s.Now).String(), "")
	}
	d.amount("command", n.Command, "")
	d.word("deadline", n.Deadline)
	d.word("deleting", n.Deleting)
	d.word("cordoned", n.Cordoned)
	d.word("do-not-disrupt", n.DoNotDisrupt)
	d.amount("drifted", n.Drifted, "")
	d.group("lacks", mapped(n.MissingDaemons, w.lackItem))
	d.group("runs", mapped(n.Pods, func(b model.BoundPod) string { return w.boundItem(&b, n.Name) }))
	return d
}

func (w *writer) claim(d *declaration, n *model.Node) {
	usual := ""
	if n.Pool != "" {
		usual = "claim-" + n.Name
	}
	if n.Claim == "" && usual != "" {
		d.word("unmanaged", true)
		return
	}
	d.amount("claim", n.Claim, usual)
}

// size writes what differs from what the node inherits. What it inherits but does not have makes it bare.
func (w *writer) size(d *declaration, n *model.Node) {
	base := model.Node{Name: n.Name, Pool: n.Pool, Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType, State: n.State, AttachLimits: n.AttachLimits}
	var t *model.InstanceType
	if n.Type != "" {
		t = w.parser().typeFor(n.Type, n.Pool)
	}
	inherit(&base, t)
	var more model.Requirements
	for _, r := range n.Labels {
		if other, ok := base.Labels.Get(r.Key); !ok || !reflect.DeepEqual(r, other) {
			more = append(more, r)
		}
	}
	both := base.Labels.And(more)
	if len(base.AttachLimits) != len(n.AttachLimits) || both.String() != n.Labels.String() || !sameLength(both, n.Labels) {
		d.word("bare", true)
		base, more = model.Node{}, n.Labels
	}
	d.group("labels", nodeLabels(more))
	d.parts = append(d.parts, w.differing(n.Capacity, base.Capacity)...)
	for i := range n.Capacity {
		if n.Capacity[i] != base.Capacity[i] {
			base.Allocatable[i] = n.Capacity[i]
		}
	}
	d.group("allocatable", w.differing(n.Allocatable, base.Allocatable))
	var used model.Resources
	for _, b := range n.Pods {
		if b.Shape >= 0 && !b.Terminal {
			used = used.Plus(w.s.Shapes[b.Shape].Requests)
		}
	}
	if n.Used != used {
		d.parts = append(d.parts, "used("+strings.Join(w.differing(n.Used, model.Resources{}), ", ")+")")
	}
	if len(base.AttachLimits) == 0 || t == nil || !reflect.DeepEqual(t.AttachLimits, n.AttachLimits) {
		d.group("attach", mapped(n.AttachLimits, attachItem))
	}
}

// sameLength reports whether both have the same keys and as many values of each.
func sameLength(a, b model.Requirements) bool {
	return slices.EqualFunc(a, b, func(x, y model.Requirement) bool {
		return x.Key == y.Key && slices.Equal(x.Values, y.Values) && x.MinValues == y.MinValues
	})
}

func (w *writer) boundItem(b *model.BoundPod, node string) string {
	d := declare(w.podName(b.PodKey, b.Shape))
	if b.Shape >= 0 {
		d.word("as "+quoteName(w.namesOf[b.Shape]), true)
	}
	d.word("daemon", b.Daemon)
	d.word("terminal", b.Terminal)
	d.word("leaving", b.Terminating)
	d.word("do-not-disrupt", b.DoNotDisrupt)
	d.amount("held", b.EvictionBlocked, "")
	if b.EvictionCost != ordinaryCost {
		d.word(fmt.Sprintf("cost=%d", b.EvictionCost), true)
	}
	w.jobItem(d, b.Job)
	d.amount("from", b.From, "")
	d.word("virtual", b.Virtual)
	d.amount("uid", b.UID, "uid-"+b.Name+"-"+node)
	d.number("priority", int64(b.Priority))
	d.amount("age", w.age(b.Created), none)
	return strings.Join(d.parts, " ")
}

// podName is the pod's name, after its namespace if that does not go without saying.
func (w *writer) podName(k model.PodKey, shape int) string {
	if k.Namespace == (&parser{s: w.s}).namespaceOf(shape) {
		return quoteName(k.Name)
	}
	return fmt.Sprintf("%s/%s", quoteName(k.Namespace), quoteName(k.Name))
}
