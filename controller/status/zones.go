package status

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// shiftInterval is how often the cloud is queried for zonal shifts
// (github.com/aws/karpenter-provider-aws/pkg/controllers/zonalshift).
const shiftInterval = 30 * time.Second

// zoneReconciler tells the cluster state from which zones traffic is shifted away, and records events on the
// NodePools.
type zoneReconciler struct {
	o       *Options
	source  cloud.ZoneShifter
	queue   *workqueue.Queue             // of one key
	shifted map[string]cloud.ShiftedZone // by zone, as last seen
}

// newZoneReconciler returns nil for a cloud without zonal shifts.
func newZoneReconciler(o *Options) *zoneReconciler {
	source, ok := o.Provider.(cloud.ZoneShifter)
	if !ok {
		return nil
	}
	return &zoneReconciler{o: o, source: source, queue: workqueue.New("zonal shifts", o.Clock, o.Log)}
}

func (z *zoneReconciler) run(ctx context.Context) {
	z.queue.Add("")
	z.queue.Run(ctx, 1, z.reconcile)
}

// reconcile queries the cloud, and returns the delay until the next time.
func (z *zoneReconciler) reconcile(ctx context.Context, _ string) (time.Duration, error) {
	found, err := z.source.ShiftedZones(ctx)
	if err != nil {
		return 0, err
	}
	shifted, until := map[string]cloud.ShiftedZone{}, map[string]time.Time{}
	for _, s := range found {
		shifted[s.Zone], until[s.Zone] = s, s.Until
	}
	z.o.Cluster.SetShiftedZones(until)
	for zone, s := range shifted {
		if _, before := z.shifted[zone]; !before {
			z.tell(s, corev1.EventTypeWarning, "ZonalShiftActive",
				"Zonal shift detected: offerings in zone %s (%s) are unavailable for this NodePool")
		}
	}
	for zone, s := range z.shifted {
		if _, still := shifted[zone]; !still {
			z.tell(s, corev1.EventTypeNormal, "ZonalShiftCleared",
				"Zonal shift cleared: offerings in zone %s (%s) are restored for this NodePool")
		}
	}
	z.shifted = shifted
	return shiftInterval, nil
}

// tell logs a change of a zone, and records an event on the NodePools that may launch there.
func (z *zoneReconciler) tell(s cloud.ShiftedZone, kind, reason, format string) {
	z.o.Log.Info("zonal shift", "event", reason, "zone", s.Zone, "zoneID", s.ID, "until", s.Until)
	for _, pool := range z.o.Cluster.NodePools() {
		if launchesIn(pool, s.Zone) {
			z.o.Recorder.Event(pool, kind, reason, fmt.Sprintf(format, s.Zone, s.ID))
		}
	}
}

// launchesIn reports whether a pool's requirements allow a zone.
func launchesIn(pool *karpv1.NodePool, zone string) bool {
	requirements, err := translate.Requirements(pool.Spec.Template.Spec.Requirements)
	if err != nil {
		return false // a condition of the pool reports why
	}
	r, limited := requirements.Get(model.LabelZone)
	return !limited || r.Has(zone)
}
