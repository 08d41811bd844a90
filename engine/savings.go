package engine

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// savings judges whether what a command saves is worth its cost.
type savings struct {
	*run
	totals map[string]total // of pools that balance
}

// requiredSaving returns what removing these nodes must save per hour: for each node the minimum of its pool, as an
// amount or as a percentage of the node's price, whichever is larger.
func (c *savings) requiredSaving(victims []*model.Node) (sum model.Price) {
	const most = 1 << 40
	for _, n := range victims {
		d := &c.pools[n.Pool].Disruption
		share := model.Price(min(max(d.MinSavingPercent, 0), 100))
		sum += max(min(d.MinSaving, most), (min(max(n.Price, 0), most)*share+99)/100, 0)
	}
	return sum
}

// worthIt returns why the saving is not worth the moves, or the zero Reason if it is.
func (c *savings) worthIt(victims []*model.Node, saves model.Price) model.Reason {
	if reason := c.smallSaving(victims, saves); reason.Rule != "" {
		return reason
	}
	if reason := c.jobs(victims, saves); reason.Rule != "" {
		return reason
	}
	return c.balanced(victims, saves)
}

// hopeless returns why the node would stay even if it needed no replacement.
func (c *savings) hopeless(n *model.Node) model.Reason {
	one := []*model.Node{n}
	if reason := c.smallSaving(one, c.effective(n)); reason.Rule != "" {
		return reason
	}
	return c.jobs(one, c.effective(n))
}

// smallSaving returns a Reason if less is saved than the nodes' pools require, or the zero Reason if it is enough.
func (c *savings) smallSaving(victims []*model.Node, saves model.Price) model.Reason {
	least := c.requiredSaving(victims)
	if saves >= least {
		return model.Reason{}
	}
	return model.Reason{
		Rule: model.RuleSmallSaving, Object: victims[0].Pool, Best: inDollars(saves),
		Detail: inDollars(least),
	}
}

func inDollars(p model.Price) string { return strconv.FormatFloat(p.Dollars(), 'f', -1, 64) }

// balancedScore is what a command must reach in pools with consolidationPolicy Balanced: the share of the pool's
// price that it saves, over the share of the pool's moving cost that it incurs
// (sigs.k8s.io/karpenter/pkg/controllers/disruption: k = 2).
const balancedScore = 0.5

// total is what a pool costs, and what moving all of its pods would cost.
type total struct {
	price  model.Price
	moving int64
}

// poolTotals returns the totals of pools with consolidationPolicy Balanced.
func (r *run) poolTotals() map[string]total {
	out := map[string]total{}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if p := r.pools[n.Pool]; p != nil && p.Disruption.Balanced && n.Claim != "" {
			t := out[n.Pool]
			out[n.Pool] = total{t.price + max(n.Price, 0), t.moving + movingCost(n)}
		}
	}
	return out
}

// balanced names the pool for which the command is not worth it; the zero Reason if there is none. The saving is
// divided among the pools by the price of their nodes.
func (c *savings) balanced(victims []*model.Node, saves model.Price) model.Reason {
	all, of := model.Price(0), map[string]total{}
	for _, n := range victims {
		t := of[n.Pool]
		of[n.Pool] = total{t.price + n.Price, t.moving + movingCost(n)}
		all += n.Price
	}
	for _, n := range victims {
		whole, balances := c.totals[n.Pool]
		if !balances || whole.price <= 0 || all <= 0 {
			continue
		}
		part := of[n.Pool]
		saved := float64(saves) * (float64(part.price) / float64(all))
		score := (saved / float64(whole.price)) / (float64(part.moving) / float64(whole.moving))
		if score < balancedScore {
			return model.Reason{
				Rule: model.RuleBalanced, Object: n.Pool,
				Detail: strconv.FormatFloat(balancedScore, 'f', 2, 64), Best: strconv.FormatFloat(score, 'f', 2, 64),
			}
		}
	}
	return model.Reason{}
}

// paysBack rejects a proposal if pods of one of the nodes are too young: the one-time cost of the moves would not be
// recovered within the pods' expected remaining life. It records when they will be old enough.
func (c *savings) paysBack(p *proposal) model.Reason {
	need, have := c.payback(p), model.Unknown
	for _, n := range p.victims {
		have = min(have, c.remaining(n))
	}
	if have >= need {
		return model.Reason{}
	}
	reason := model.Reason{Rule: model.RulePayback, Detail: need.String(), Best: have.Round(time.Second).String()}
	if need != model.Unknown {
		reason.Until = c.s.Now.Add(need - have)
		if len(p.victims) == 1 {
			c.lookAgain(reason.Until)
		}
	}
	return reason
}

// payback returns the time after which the proposal has saved what it costs.
func (c *savings) payback(p *proposal) time.Duration {
	launched, moves := c.launchPrice(&p.plan), int64(0)
	for _, n := range p.victims {
		moves += movingCost(n) - 1000
	}
	return c.policy.Payback(c.priceOf(p.victims)-launched, launched, moves)
}

// remaining returns how long the node's pods can be expected to keep running.
func (c *savings) remaining(n *model.Node) time.Duration {
	var pods []model.Pod
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			pods = append(pods, n.Pods[i].Pod)
		}
	}
	return model.Remaining(c.s.Now, pods)
}

// lookAgain records that the next plan may differ at that time even if nothing changes.
func (r *run) lookAgain(at time.Time) {
	if r.again.IsZero() || at.Before(r.again) {
		r.again = at
	}
}

// unfinished is a Job's pod that would start over elsewhere.
type unfinished struct {
	key  model.PodKey
	left time.Duration // estimated time until it ends
	lost float64       // cost of its run so far, in price × seconds
}

// jobs names a Job's pod that will finish before moving it pays. Waiting for the pod costs what the command would
// save until then. Moving it costs its run so far, since it starts over, and the nodes that are paid twice during the
// handover.
func (c *savings) jobs(victims []*model.Node, saves model.Price) model.Reason {
	var all []unfinished
	for _, n := range victims {
		if !c.pools[n.Pool].Disruption.WaitForJobs {
			continue
		}
		for i := range n.Pods {
			if u, known := c.unfinished(n, &n.Pods[i]); known {
				all = append(all, u)
			}
		}
	}
	slices.SortFunc(all, func(a, b unfinished) int {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.key.Namespace, b.key.Namespace),
			cmp.Compare(a.key.Name, b.key.Name))
	})
	launched := max(c.priceOf(victims)-max(saves, 0), 0)
	lost := float64(float64(launched) * model.Handover.Seconds())
	for _, u := range all {
		lost += u.lost
		if waiting := float64(float64(max(saves, 0)) * u.left.Seconds()); lost >= waiting {
			return model.Reason{Rule: model.RuleJob, Object: podName(u.key), Detail: u.left.Round(time.Second).String()}
		}
	}
	return model.Reason{}
}

func (c *savings) unfinished(n *model.Node, p *model.BoundPod) (unfinished, bool) {
	if p.Job == nil || !p.Moves() {
		return unfinished{}, false
	}
	left, known := p.Job.Remaining(c.s.Now)
	ran := max(c.s.Now.Sub(p.Job.Started), 0)
	return unfinished{p.PodKey, left, float64(float64(n.Price) * share(c.s, n, p) * ran.Seconds())}, known
}

// share returns the fraction of the node that the pod uses, of CPU or memory, whichever is larger, 0 to 1.
func share(s *model.Snapshot, n *model.Node, p *model.BoundPod) float64 {
	part := 0.0
	if p.Shape < 0 || p.Shape >= len(s.Shapes) {
		return part
	}
	for _, i := range []int{model.CPU, model.Memory} {
		if n.Allocatable[i] > 0 {
			part = max(part, float64(s.Shapes[p.Shape].Requests[i])/float64(n.Allocatable[i]))
		}
	}
	return min(part, 1)
}
