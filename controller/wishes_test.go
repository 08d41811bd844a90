package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// wish changes the stack's only pool.
func wish(t *testing.T, s *stacktest.Stack, change func(*karpv1.NodePool)) {
	t.Helper()
	planetest.Eventually(t, "the pool is changed", func(ctx context.Context) error {
		var pools karpv1.NodePoolList
		if err := s.Client.List(ctx, &pools); err != nil || len(pools.Items) != 1 {
			return fmt.Errorf("%d pools, %w", len(pools.Items), err)
		}
		after := pools.Items[0].DeepCopy()
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		change(after)
		return s.Client.Patch(ctx, after, client.MergeFrom(&pools.Items[0]))
	})
}

// claims returns the names of all NodeClaims.
func claims(t *testing.T, s *stacktest.Stack) map[string]bool {
	t.Helper()
	var list karpv1.NodeClaimList
	if err := s.Client.List(context.Background(), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for i := range list.Items {
		out[list.Items[i].Name] = true
	}
	return out
}

// replaced waits until all of the claims are gone and others exist.
func replaced(t *testing.T, s *stacktest.Stack, old map[string]bool) {
	t.Helper()
	planetest.Eventually(t, "the machines are replaced", func(ctx context.Context) error {
		now := claims(t, s)
		for name := range old {
			if now[name] {
				return fmt.Errorf("%s is still there", name)
			}
		}
		if len(now) == 0 {
			return errors.New("there is no other")
		}
		return nil
	})
}

func TestMachinesGoOnlyInTheirPoolsWindow(t *testing.T) {
	s := stacktest.Start(t)
	namespace := planetest.Namespace(t, s.Plane)
	later := time.Now().UTC().Add(12 * time.Hour)
	wish(t, s, func(np *karpv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
		np.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
		np.Annotations[translate.AnnotationWindows] = fmt.Sprintf("0 %d * * * 1h", later.Hour())
	})
	stays := make(chan string, 1)
	r := s.Controller(t, func(o *controller.Options) {
		o.OnDecision = func(d cycle.Decision) {
			for _, k := range d.Plan.Kept {
				if k.Reason.Rule == model.RuleWindow {
					select {
					case stays <- k.Node:
					default:
					}
				}
			}
		}
	})
	<-r.Leads
	web := deployment(namespace, "web", 2)
	create(t, s.Client, web)
	running(t, s.Client, web)
	before := claims(t, s)
	if err := s.Client.Delete(context.Background(), web); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stays: // the node is empty, and its window is closed
	case <-time.After(4 * time.Minute):
		t.Fatal("no machine stays for its window")
	}
	if now := claims(t, s); len(now) != len(before) {
		t.Errorf("%d machines of %d are left outside of the window", len(now), len(before))
	}
	wish(t, s, func(np *karpv1.NodePool) {
		np.Annotations[translate.AnnotationWindows], np.Annotations[translate.AnnotationTimeZone] = "@daily 25h", // one day a year has 25 hours
			"Pacific/Auckland"
	})
	gone(t, s)
}

// ahead is a clock that runs ahead of the API server's: new objects are already old.
type ahead struct {
	clock.Real
	by time.Duration
}

func (a ahead) Now() time.Time { return time.Now().Add(a.by) }

// A node is replaced when a DaemonSet outgrows its free capacity, and again when it exceeds its pool's maximum age:
// the replacement is ready first.
func TestMachinesAreReplacedForADaemonSetAndForTheirAge(t *testing.T) {
	s := stacktest.Start(t)
	namespace := planetest.Namespace(t, s.Plane)
	wish(t, s, func(np *karpv1.NodePool) {
		np.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
		np.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
		np.Annotations[translate.AnnotationMakeRoom] = "true"
	})
	r := s.Controller(t, func(o *controller.Options) { o.Clock = ahead{by: 11 * time.Minute} })
	<-r.Leads
	web := deployment(namespace, "web", 2)
	create(t, s.Client, web)
	running(t, s.Client, web)
	full := claims(t, s)
	agent := agent(namespace, free(t, s)+500)
	create(t, s.Client, agent)
	replaced(t, s, full)
	running(t, s.Client, web)
	planetest.Eventually(t, "the DaemonSet's pod runs", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(agent), agent); err != nil {
			return err
		}
		if st := agent.Status; st.NumberReady == 0 || st.NumberReady != st.DesiredNumberScheduled {
			return fmt.Errorf("%d of %d are ready", st.NumberReady, st.DesiredNumberScheduled)
		}
		return nil
	})
	old := claims(t, s)
	wish(t, s, func(np *karpv1.NodePool) { np.Annotations[translate.AnnotationSoftExpireAfter] = "10m" })
	replaced(t, s, old)
	wish(t, s, func(np *karpv1.NodePool) { delete(np.Annotations, translate.AnnotationSoftExpireAfter) })
	running(t, s.Client, web)
}

// free returns the most CPU, in millicores, that is free on a single node.
func free(t *testing.T, s *stacktest.Stack) (most int64) {
	t.Helper()
	ctx := context.Background()
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := errors.Join(s.Client.List(ctx, &nodes), s.Client.List(ctx, &pods)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		left := n.Status.Allocatable.Cpu().MilliValue()
		for _, p := range pods.Items {
			if p.Spec.NodeName == n.Name {
				left -= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			}
		}
		most = max(most, left)
	}
	return most
}

func agent(namespace string, milliCPU int64) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}}
	labels := map[string]string{"app": "agent"}
	d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)},
	}}}
	return d
}
