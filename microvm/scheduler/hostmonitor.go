package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm"
)

// hostMonitor tracks whether hosts are ready. It marks the Nodes of a lost host as unknown and, once HostGrace has
// passed, gives up the host's pods.
type hostMonitor struct {
	o     *Options
	pods  *records
	hosts *hosts
	api   *api
	nodes *nodes
	work  *work
	news  signal.Signal // a host may have been lost or recovered
}

// pollInterval is the maximum interval between checks of a host that sends no news.
const pollInterval = 5 * time.Second

func (m *hostMonitor) run(ctx context.Context) {
	for ctx.Err() == nil {
		for name, d := range m.hosts.describe() {
			if err := m.check(ctx, name, d); err != nil && ctx.Err() == nil {
				m.o.Log.Warn("the Nodes of a microVM host are not up to date; retrying", "host", name, "error", err)
			}
		}
		_ = clock.SleepOr(ctx, m.o.Clock, min(pollInterval, m.o.HostGrace/2), m.news)
	}
}

// check makes a host's Nodes as ready as the host. It reads them each time: an earlier process may have left them
// unknown, and a write may have failed.
func (m *hostMonitor) check(ctx context.Context, name string, d microvm.Description) error {
	if d.Starting {
		return nil
	}
	lostSince, news := m.hosts.observe(name, d.Ready)
	if news {
		m.work.addProfiles()
		if d.Ready {
			m.work.addWaiting(nil)
		}
	}
	why := fmt.Sprintf("host %s is lost: %s", name, d.Message)
	var failed []error
	for uid := range m.pods.onHost(name) {
		failed = append(failed, m.nodes.setReady(ctx, uid, d.Ready, why))
		if !d.Ready && m.o.Clock.Now().Sub(lostSince) >= m.o.HostGrace {
			failed = append(failed, m.giveUp(ctx, uid, why))
		}
	}
	return errors.Join(failed...)
}

// giveUp deletes a pod whose host is lost, so that its owner creates another: no host is left to stop the pod.
func (m *hostMonitor) giveUp(ctx context.Context, uid types.UID, why string) error {
	var failed []error
	if key := m.pods.get(uid).key; key != (types.NamespacedName{}) {
		pod := &corev1.Pod{}
		err := m.o.Cache.Get(ctx, key, pod)
		if err == nil && pod.UID == uid && pod.Spec.NodeName != "" {
			m.o.Recorder.Event(pod, corev1.EventTypeWarning, "NodeLost", "The pod is deleted: "+why)
			failed = append(failed, m.api.deletePod(ctx, pod))
		}
		failed = append(failed, client.IgnoreNotFound(err))
	}
	return errors.Join(append(failed, m.api.deleteClaim(ctx, uid))...)
}
