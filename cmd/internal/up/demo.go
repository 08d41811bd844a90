//go:build !noplane

package up

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/progress"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/reason"
)

// launchUI shows decisions as they are made.
type launchUI struct{ p *progress.Printer }

// show prints what a decision launched and removed, and why.
func (u launchUI) show(d cycle.Decision) {
	if len(d.Result.Created) > 0 {
		for i := range d.Plan.Launches {
			u.p.Line("  + %s", reason.Launch(d.Snapshot, d.Plan.Launches[i]))
		}
	}
	if len(d.Result.Removed) > 0 {
		for i := range d.Plan.Removals {
			u.p.Line("  - %s", reason.Removal(d.Snapshot, d.Plan.Removals[i]))
		}
	}
}

const demoName = "inflate"

// demo applies the example Deployment and shows what happens to its pods, until ctx is done.
func (l *local) demo(ctx context.Context) error {
	l.p.Line("Applying examples/inflate.yaml: a hundred pods that ask for one CPU each. What is launched, and why:")
	if err := apply(ctx, l.client, "inflate.yaml"); err != nil {
		return err
	}
	started := time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var last string
	told := false
	for {
		n, wanted, err := l.look(ctx)
		if err != nil {
			return err
		}
		if line := progressLine(n); line != last {
			l.p.Status("  %5.1fs  %s", time.Since(started).Seconds(), line)
			last = line
		}
		if !told && n.settled(wanted) {
			told = true
			l.p.EndStatus()
			l.whatNext(n, time.Since(started))
		}
		select {
		case <-ctx.Done():
			l.p.EndStatus()
			return nil
		case err := <-l.failed:
			l.p.EndStatus()
			return err
		case <-tick.C:
		}
	}
}

// look returns the counts of the demo, and how many pods its Deployment wants.
func (l *local) look(ctx context.Context) (n counts, wanted int, err error) {
	if wanted, err = replicas(ctx, l.client); err != nil {
		return n, 0, err
	}
	if n, err = count(ctx, l.client, client.MatchingLabels{"app": demoName}); err != nil {
		return n, 0, err
	}
	return n, wanted, n.countRegion(ctx, l.regionURL, l.regionToken)
}

// replicas returns how many pods the demo's Deployment wants, none if somebody deleted it.
func replicas(ctx context.Context, cl client.Client) (int, error) {
	var d appsv1.Deployment
	err := cl.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: demoName}, &d)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("read Deployment %s: %w", demoName, err)
	}
	return int(ptr.Deref(d.Spec.Replicas, 0)), nil
}

// settled reports whether every pod of the demo runs. Pods are created one by one, so those that exist may all run
// before the last one is created.
func (n counts) settled(wanted int) bool {
	return n.PodsRunning > 0 && n.PodsRunning >= wanted && n.PodsPending == 0 && n.ClaimsOpen == 0
}

// progressLine formats the state of the demo in 80 columns.
func progressLine(n counts) string {
	parts := []string{
		fmt.Sprintf("pods %d pending %d running", n.PodsPending, n.PodsRunning),
		fmt.Sprintf("claims %d launching %d ready", n.ClaimsOpen, n.ClaimsReady),
		fmt.Sprintf("%d nodes", n.Nodes),
		reason.PerHour(n.DollarsPerHour),
	}
	return strings.Join(parts, " · ")
}

func (l *local) whatNext(n counts, took time.Duration) {
	kubectl := localcluster.CommandFor("kubectl", l.o.DataDir, l.o.cluster)
	l.p.Line("")
	l.p.Line("All %d pods run after %.1fs on %d nodes for %s. Look at them in another terminal:", n.PodsRunning,
		took.Seconds(), n.Nodes, reason.PerHour(n.DollarsPerHour))
	l.p.Line("  %s get nodeclaims", kubectl)
	l.p.Line("  %s", localcluster.CommandFor("status", l.o.DataDir, l.o.cluster))
	l.p.Line("Remove the pods, and see their nodes removed:")
	l.p.Line("  %s scale deployment %s --replicas 0", kubectl, demoName)
	l.p.Line("Ctrl-C ends the cluster; its state is kept in %s.", l.o.DataDir)
	l.p.Line("")
}
