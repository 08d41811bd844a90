package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// ofRemoved spoils the pool of the first node that is removed by the method without a command.
func ofRemoved(how model.Method, f func(*model.Pool)) func(*plan) bool {
	return func(p *plan) bool {
		for _, r := range p.Removals {
			if r.Method == how {
				f(poolOf(p.Snapshot, r.Pool))
				return true
			}
		}
		return false
	}
}

// ofVictims spoils the pool of the first command of the method.
func ofVictims(how model.Method, launches bool, f func(*plan, *model.Command, *model.Pool)) func(*plan) bool {
	return ofCommand(how, launches, func(p *plan, c *model.Command) bool {
		f(p, c, poolOf(p.Snapshot, c.Removals[0].Pool))
		return true
	})
}

func closed(p *model.Pool) {
	p.Disruption.Window = model.Window{Empty: true, Drifted: true, Underused: true}
}

var wishMutations = []mutation{
	{"an empty machine goes outside of the window", "window", ofRemoved(model.Empty, closed)},
	{
		"a drifted machine goes outside of the window", "window",
		ofVictims(model.Drifted, false, func(_ *plan, _ *model.Command, pool *model.Pool) { closed(pool) }),
	},
	{
		"an old machine goes outside of the window", "window",
		ofVictims(model.Expired, false, func(_ *plan, _ *model.Command, pool *model.Pool) { closed(pool) }),
	},
	{
		"a dear machine goes outside of the window", "window",
		ofVictims(model.Underutilized, false, func(_ *plan, _ *model.Command, pool *model.Pool) { closed(pool) }),
	},
	{
		"a machine goes though its pool's wishes cannot be read", "window",
		ofVictims(model.Underutilized, false, func(_ *plan, _ *model.Command, pool *model.Pool) {
			pool.Disruption.Unclear = "annotation"
		}),
	},
	{
		"less is saved than the pool wants", "saving",
		ofVictims(model.Underutilized, false, func(p *plan, c *model.Command, pool *model.Pool) {
			pool.Disruption.MinSaving = c.Saves + 1
		}),
	},
	{
		"less is saved than the pool wants in percent", "saving",
		ofCommand(model.Underutilized, true, func(p *plan, c *model.Command) bool {
			poolOf(p.Snapshot, c.Removals[0].Pool).Disruption.MinSavingPercent = 100
			return c.Launches[0].Chosen.Price > 0 && len(slices.Compact(poolsOf(c))) == 1 // a free node saves 100 %
		}),
	},
	{
		"a machine is not as old as that", "expired",
		ofVictims(model.Expired, false, func(p *plan, c *model.Command, pool *model.Pool) {
			p.victim(c).Created = p.Now.Add(-time.Second)
		}),
	},
	{
		"the pool does not expire softly", "expired",
		ofVictims(model.Expired, false, func(_ *plan, _ *model.Command, pool *model.Pool) {
			pool.Disruption.SoftExpireAfter = 0
		}),
	},
	{
		"the budget is broken by machines that are too old", "budget",
		ofVictims(model.Expired, false, func(_ *plan, _ *model.Command, pool *model.Pool) {
			pool.Disruption.AllowedDrifted = 0
		}),
	},
	{
		"an old machine's pod is behind a PodDisruptionBudget, deadline or not", "disruptable",
		ofVictims(model.Expired, false, func(p *plan, c *model.Command, _ *model.Pool) {
			n := p.victim(c)
			n.Deadline = true
			n.Pods = append(n.Pods[:len(n.Pods):len(n.Pods)],
				model.BoundPod{Pod: model.Pod{Shape: -1}, EvictionBlocked: "PodDisruptionBudget a/b allows no eviction"})
		}),
	},
	{
		"the pool does not ask for room for daemons", "crowded",
		ofVictims(model.CrowdedOut, false, func(_ *plan, _ *model.Command, pool *model.Pool) {
			pool.Disruption.ReplaceCrowded = false
		}),
	},
	{
		"there is room for the DaemonSet's pod", "crowded",
		ofVictims(model.CrowdedOut, false, func(p *plan, c *model.Command, _ *model.Pool) {
			p.victim(c).Used = model.Resources{}
		}),
	},
	{
		"no DaemonSet's pod waits", "crowded",
		ofVictims(model.CrowdedOut, false,
			func(p *plan, c *model.Command, _ *model.Pool) { p.victim(c).MissingDaemons = nil }),
	},
	{
		"a DaemonSet's pod waits for a moment only", "crowded",
		ofVictims(model.CrowdedOut, false, func(p *plan, c *model.Command, _ *model.Pool) {
			for i := range p.victim(c).MissingDaemons {
				p.victim(c).MissingDaemons[i].Since = p.Now
			}
		}),
	},
	{
		"a Job's pod is moved a second before it is done", "job",
		ofVictims(model.Underutilized, false, func(p *plan, c *model.Command, pool *model.Pool) {
			pool.Disruption.WaitForJobs = true
			n := p.victim(c)
			i := slices.IndexFunc(n.Pods, func(b model.BoundPod) bool { return b.Moves() && b.Shape >= 0 })
			p.Shapes[n.Pods[i].Shape].Requests[model.CPU] = n.Allocatable[model.CPU]
			n.Pods = slices.Clone(n.Pods)
			n.Pods[i].Job = &model.JobRun{
				Started: p.Now.Add(-100 * time.Hour),
				Past:    []time.Duration{100*time.Hour + time.Second},
			}
		}),
	},
	{"a machine of the same type comes", "crowded", func(p *plan) bool {
		for i := range p.Commands {
			c := &p.Commands[i]
			if c.Method == model.CrowdedOut && len(c.Launches) == 1 && len(c.Placements) == 0 &&
				!poolOf(p.Snapshot, c.Removals[0].Pool).Static {
				p.victim(c).Type = c.Launches[0].Types[0]
				return true
			}
		}
		return false
	}},
}

func TestPlantedBugsOfAnnotationsAreCaught(t *testing.T) {
	plant(t, goodDisruptions(t), wishMutations)
}
