package faults

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/region"
)

// A pod that can have a node gets its claim in the first cycle that sees it, however many pods no pool can serve. That
// cycle explains a part of those, and later ones the rest.
func TestHopelessPodsDoNotHoldUpAClaim(t *testing.T) {
	const pools, pods = 100, 300
	var log safeBuffer
	synctest.Test(t, func(t *testing.T) {
		offers, err := machines.Region()
		if err != nil {
			t.Fatal(err)
		}
		c := open(t, region.Config{Offers: offers, Seed: 1})
		c.labels = machines.Labels
		var seen atomic.Int64 // decisions that knew the good pod
		var claimed []int64   // at each claim
		c.api.Observe(func(x apisim.Change) {
			if x.Resource == claimsGVR && x.Was == nil {
				claimed = append(claimed, seen.Load())
			}
		})
		o := through(t, c, c.api, c, &log)
		var explained []int
		o.OnDecision = func(d cycle.Decision) {
			n := 0
			for _, u := range d.Plan.Unplaced {
				if u.Reason.Rule != model.RuleUnexplained {
					n++
				}
			}
			explained = append(explained, n)
			for _, p := range d.Snapshot.Pending {
				if p.Name == "good" {
					seen.Add(1)
				}
			}
		}
		if err := manyPools(c, pools); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(c.ctx)
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx, o) }()
		time.Sleep(time.Minute) // the pools become ready
		explained = nil
		if err := errors.Join(waits(c, "good", "1", ""), hopelessPods(c, pods)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.stop()
		if len(claimed) != 1 || claimed[0] != 0 {
			t.Errorf("claims came after %v decisions about the pod, want one claim after none", claimed)
		}
		if len(explained) == 0 || explained[0] == 0 || explained[0] == pods || explained[len(explained)-1] != pods {
			t.Errorf("%v pods know why after each decision, want some after the first and at last %d", explained, pods)
		}
	})
	if t.Failed() {
		text := log.String()
		t.Log(text[max(0, len(text)-10_000):])
	}
}

func manyPools(c *cluster, n int) error {
	err := c.client.Create(c.ctx, class())
	for i := range n {
		p := pool()
		p.Name, p.Spec.Limits = fmt.Sprintf("pool-%03d", i), nil
		p.Spec.Template.Labels = map[string]string{"team": fmt.Sprint("t", i)}
		err = errors.Join(err, c.client.Create(c.ctx, p))
	}
	return err
}

// hopelessPods creates pods that no pool can serve, each of a shape of its own.
func hopelessPods(c *cluster, n int) (err error) {
	for i := range n {
		name := fmt.Sprintf("hopeless-%04d", i)
		if i%2 == 0 {
			err = errors.Join(err, waits(c, name, fmt.Sprint(100+i), ""))
		} else {
			err = errors.Join(err, waits(c, name, fmt.Sprintf("%dm", 100+i), fmt.Sprint("type-", i)))
		}
	}
	return err
}

// waits creates a pod that kube-scheduler could not place.
func waits(c *cluster, name, cpu, instanceType string) error {
	pod := job(0)
	pod.Name, pod.Annotations = name, nil
	pod.Spec = app("x", 0, cpu).Spec.Template.Spec
	if instanceType != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: instanceType}
	}
	if err := c.client.Create(c.ctx, pod); err != nil {
		return err
	}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	return c.client.Status().Update(c.ctx, pod)
}
