package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodeless/nodeless/engine/model"
)

// Karpenter labels its scheduler's metrics with the controller that ran it and with an ID of the run; here there is
// only the last run.
const (
	provisioner = "provisioner"
	lastRun     = "last"
)

// Scheduler measures plans.
type Scheduler struct {
	duration              *prometheus.HistogramVec
	queue, work           *prometheus.GaugeVec
	unschedulable, byZone *prometheus.GaugeVec
	ignored               *prometheus.GaugeVec
}

// NewScheduler returns a Scheduler whose metrics are registered with r.
func NewScheduler(r prometheus.Registerer) *Scheduler {
	m := maker{r}
	const scheduler = "karpenter_scheduler_"
	s := &Scheduler{
		duration: m.histogram(scheduler+"scheduling_duration_seconds", "Time from a snapshot to its plan.",
			durations(), "controller"),
		queue: m.gauge(scheduler+"queue_depth", "Pending pods when the last plan was made.",
			"controller", "scheduling_id"),
		work: m.gauge(scheduler+"unfinished_work_seconds",
			"Work on a plan that is not done; a plan takes milliseconds, so it is 0 whenever it is asked for.", "controller",
			"scheduling_id"),
		unschedulable: m.gauge(scheduler+"unschedulable_pods_count",
			"Pods that no node can take according to the last plan.", "controller"),
		ignored: m.gauge(scheduler+"ignored_pods_count",
			"Pods that cannot be planned for, whatever the node."),
		byZone: m.gauge(scheduler+"pending_pods_by_effective_zone_count",
			"Pods that waited when the last plan was made, by the zone they need: its name, flexible or none.", "controller",
			"zone"),
	}
	s.work.WithLabelValues(provisioner, lastRun).Set(0)
	return s
}

// Planned measures a plan for pods.
func (s *Scheduler) Planned(of *model.Snapshot, plan *model.Plan, took time.Duration) {
	s.duration.WithLabelValues(provisioner).Observe(took.Seconds())
	blocked, virtual := map[model.PodKey]bool{}, map[model.PodKey]bool{} // virtual pods are not counted
	zones := map[string]int{}
	zoneOf := map[int]string{}
	for i := range of.Pending {
		p := &of.Pending[i]
		if p.Virtual {
			virtual[p.PodKey] = true
			continue
		}
		if of.Shapes[p.Shape].Blocked != "" {
			blocked[p.PodKey] = true
		}
		zone, known := zoneOf[p.Shape]
		if !known {
			zone = effectiveZone(&of.Shapes[p.Shape])
			zoneOf[p.Shape] = zone
		}
		zones[zone]++
	}
	s.queue.WithLabelValues(provisioner, lastRun).Set(float64(len(of.Pending) - len(virtual)))
	unplaced := 0
	for i := range plan.Unplaced {
		if pod := plan.Unplaced[i].Pod; !blocked[pod] && !virtual[pod] {
			unplaced++
		}
	}
	s.unschedulable.WithLabelValues(provisioner).Set(float64(unplaced))
	s.ignored.WithLabelValues().Set(float64(len(blocked)))
	s.byZone.Reset()
	for zone, n := range zones {
		s.byZone.WithLabelValues(provisioner, zone).Set(float64(n))
	}
}

// effectiveZone returns the only zone in which pods of a shape may run, according to their selectors and volumes;
// "none" if there is none, "flexible" if there are several.
func effectiveZone(s *model.Shape) string {
	may, found := s.Required.Get(model.LabelZone)
	narrow := func(terms []model.Requirements) {
		if len(terms) != 1 {
			return
		}
		if r, ok := terms[0].Get(model.LabelZone); ok {
			if found {
				r = may.And(r)
			}
			may, found = r, true
		}
	}
	narrow(s.AnyOf)
	for i := range s.Volumes {
		narrow(s.Volumes[i].Topology)
	}
	switch {
	case !found || may.Complement || len(may.Values) > 1:
		return "flexible"
	case len(may.Values) == 1:
		return may.Values[0]
	}
	return "none"
}
