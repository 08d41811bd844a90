package disrupt

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// unfinished is a Job's pod that would start over elsewhere.
type unfinished struct {
	key  model.PodKey
	left time.Duration // estimated time until it ends
	lost float64       // cost of its run so far, in price × seconds
}

// jobs names a Job's pod that will finish before moving it pays. Waiting for the pod costs what the command would
// save meanwhile. Moving it costs the run so far, since the pod starts over.
func (r *savings) jobs(victims []*model.Node, saves model.Price) model.Reason {
	var all []unfinished
	for _, n := range victims {
		if !r.pools[n.Pool].Disruption.WaitForJobs {
			continue
		}
		for i := range n.Pods {
			if u, known := r.unfinished(n, &n.Pods[i]); known {
				all = append(all, u)
			}
		}
	}
	slices.SortFunc(all, func(a, b unfinished) int {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.key.Name,
			b.key.Name))
	})
	launched := max(priceOf(victims)-max(saves, 0), 0)
	lost := float64(float64(launched) * model.Handover.Seconds())
	for _, u := range all {
		lost += u.lost
		if waiting := float64(float64(max(saves, 0)) * u.left.Seconds()); lost >= waiting {
			return model.Reason{Rule: model.RuleJob, Object: podName(u.key), Detail: u.left.Round(time.Second).String()}
		}
	}
	return model.Reason{}
}

func (r *savings) unfinished(n *model.Node, p *model.BoundPod) (unfinished, bool) {
	if p.Job == nil || !p.Moves() {
		return unfinished{}, false
	}
	left, known := p.Job.Remaining(r.s.Now)
	ran := max(r.s.Now.Sub(p.Job.Started), 0)
	return unfinished{p.PodKey, left, float64(float64(n.Price) * share(r.s, n, p) * ran.Seconds())}, known
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
