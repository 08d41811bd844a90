package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

// outcome is one side's result for the pods.
type outcome struct {
	who      string
	usage    usage
	machines []machine
	unplaced int
	bound    model.Price // 0 = unknown
	partial  bool
	faults   []string // found by the judges
	cost     model.Price
}

// machine is a launch in terms that both sides share.
type machine struct {
	pods                 []string // by name
	zones, capacityTypes []string // in which it may be launched; nil = any
}

// nodeless runs the engine on the pods. The time for grouping the pods counts as the engine's, although the product
// does that as pods come and go: Karpenter's Solve reads the pods too.
func nodeless(c *catalogue, pods []*corev1.Pod, policy model.Policy, judged bool) outcome {
	var s *model.Snapshot
	grouped := measure(func() { s = c.snapshot(pods) })
	out := provision(s, policy, judged)
	out.usage = out.usage.plus(grouped)
	return out
}

// provision runs the engine on a snapshot. The judge's time does not count.
func provision(s *model.Snapshot, policy model.Policy, judged bool) outcome {
	var plan model.Plan
	out := outcome{who: "nodeless"}
	if policy.Solver != model.Staged {
		out.who += " " + string(policy.Solver)
	}
	out.usage = measure(func() { plan = engine.Provision(s, policy) })
	out.unplaced, out.bound, out.partial = len(plan.Unplaced), plan.LowerBound, plan.Partial
	for i := range plan.Launches {
		l := &plan.Launches[i]
		m := machine{
			zones:         valuesOf(l.Requirements, model.LabelZone),
			capacityTypes: valuesOf(l.Requirements, model.LabelCapacityType),
		}
		for _, p := range l.Pods {
			m.pods = append(m.pods, p.Name)
		}
		out.machines = append(out.machines, m)
	}
	if judged {
		for _, v := range check.Plan(s, policy, plan) {
			if v.Unproven {
				// No order of binding was found, which does not mean that there is none.
				progress("not proven: %s", v.Error())
				continue
			}
			out.faults = append(out.faults, v.Error())
		}
	}
	return out
}

func valuesOf(rs model.Requirements, key string) []string {
	if r, ok := rs.Get(key); ok && !r.Complement {
		return r.Values
	}
	return nil
}

// price prices all outcomes alike: each machine costs the cheapest offering in its zones and capacity types that fits
// its pods and the daemons. Neither side's own choice of type counts.
func (c *catalogue) price(o *outcome, pods map[string]*corev1.Pod) error {
	type question struct {
		load  model.Resources
		where string
	}
	known := map[question]model.Price{}
	o.cost = 0
	for i := range o.machines {
		m := &o.machines[i]
		q := question{load: c.overhead(), where: fmt.Sprint(m.zones, m.capacityTypes)}
		for _, p := range m.pods {
			q.load = q.load.Plus(requestsOf(pods[p]))
		}
		if _, ok := known[q]; !ok {
			known[q] = c.cheapest(q.load, m)
		}
		if known[q] == 0 {
			return fmt.Errorf("%s: no type in %s holds %s", o.who, q.where, q.load.Amounts(model.WellKnownResources))
		}
		o.cost += known[q]
	}
	return nil
}

// cheapest returns the price of the cheapest offering, or 0 if there is none.
func (c *catalogue) cheapest(load model.Resources, m *machine) (least model.Price) {
	for i := range c.types {
		t := &c.types[i]
		if !load.Fits(t.Allocatable) {
			continue
		}
		for _, o := range t.Offerings {
			if in(m.zones, o.Zone) && in(m.capacityTypes, o.CapacityType) && (least == 0 || o.Price < least) {
				least = o.Price
			}
		}
	}
	return least
}

func in(values []string, value string) bool { return values == nil || slices.Contains(values, value) }

func byName(pods []*corev1.Pod) map[string]*corev1.Pod {
	out := make(map[string]*corev1.Pod, len(pods))
	for _, p := range pods {
		out[p.Name] = p
	}
	return out
}

// settle sets an outcome's price and adds the faults found by the judge of both sides.
func (c *catalogue) settle(o *outcome, pods map[string]*corev1.Pod) {
	if err := c.price(o, pods); err != nil {
		o.faults = append(o.faults, err.Error())
	}
	o.faults = append(o.faults, faultsOf(o, pods)...)
}
