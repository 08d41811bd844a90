package transition

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// tagged returns a place before the migration, whose group has two instances and a tag of the cluster.
func tagged(t *testing.T) *place {
	t.Helper()
	p := newPlace(t, &State{})
	p.group.desired, p.group.tag = 2, "kubernetes.io/cluster/prod"
	return p
}

// found returns what a migration that begins now would record.
func (p *place) found() *State {
	p.t.Helper()
	s := &State{}
	if err := p.discover(p.t.Context(), s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// readyPool makes the pool Ready.
func (p *place) readyPool() {
	p.t.Helper()
	pool := &karpv1.NodePool{}
	if err := p.client.Get(p.t.Context(), client.ObjectKey{Name: "general"}, pool); err != nil {
		p.t.Fatal(err)
	}
	for _, kind := range []string{karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady} {
		pool.StatusConditions().SetTrue(kind)
	}
	if err := p.client.Update(p.t.Context(), pool); err != nil {
		p.t.Fatal(err)
	}
}

func (s *State) titles() (out []string) {
	for i := range s.Groups {
		out = append(out, s.Groups[i].Title())
	}
	return out
}

// Users keep a group by making a NodeGroup for it.
func TestAMigrationLeavesTheGroupsOfNodeGroupsAlone(t *testing.T) {
	p := tagged(t)
	if s := p.found(); len(s.Groups) != 1 || len(s.Pools) != 1 {
		t.Fatalf("without a NodeGroup it finds groups %v and pools %v", s.titles(), s.Pools)
	}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	pool.Spec.Template.Spec.NodeClassRef = claimOf(v1alpha1.NodeGroupKind).Spec.NodeClassRef
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	group.Spec.AutoScalingGroupName = "web"
	for _, o := range []client.Object{pool, group} {
		if err := p.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if s := p.found(); len(s.Groups) > 0 || len(s.Pools) != 1 || s.Pools[0].Name != "general" {
		t.Errorf("it finds groups %v and pools %v", s.titles(), s.Pools)
	}
}

func TestAMigrationNeedsNoNodeGroups(t *testing.T) {
	p := tagged(t)
	missing := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.NodeGroupList); ok {
				return &meta.NoKindMatchError{}
			}
			return c.List(ctx, list, o...)
		},
	}
	p.client = interceptor.NewClient(p.client.(client.WithWatch), missing)
	if s := p.found(); len(s.Groups) != 1 {
		t.Errorf("it finds groups %v and pools %v", s.titles(), s.Pools)
	}
}

// The group of a control plane that kops did not make has the same tags as those of nodes.
func TestAMigrationLeavesTheControlPlaneAlone(t *testing.T) {
	p := tagged(t)
	_, err := p.kubernetes.CoreV1().Nodes().Patch(t.Context(), "node-0", types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.found(); len(s.Groups) > 0 {
		t.Errorf("it finds %v", s.titles())
	}
}

// Nothing else would say that the base of a group is not launched: no pod waits for it.
func TestAMigrationNeedsStaticPoolsToBeReady(t *testing.T) {
	p := tagged(t)
	p.readyPool()
	pool, replicas := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web-base"}}, int64(2)
	pool.Spec.Replicas = &replicas
	if err := p.client.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	refused := func(wants ...string) {
		t.Helper()
		s, err := p.Next(p.untilItWaits(), false)
		for _, want := range wants {
			if err == nil || s.Step != NotBegun || !strings.Contains(err.Error(), want) {
				t.Errorf("step %s, %v, want %q", s.Step, err, want)
			}
		}
	}
	refused("NodePool web-base", "has not judged it yet")
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	pool.StatusConditions().SetFalse(karpv1.ConditionTypeValidationSucceeded, "StaticCapacityDisabled", "the gate is off")
	if err := p.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	refused("NodePool web-base", "2 nodes", "the gate is off")
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	if err := p.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if s, err := p.Next(p.untilItWaits(), false); err != nil || s.Step != Observed {
		t.Errorf("with its gate: step %s, %v", s.Step, err)
	}
}

// AWS does not end instances that are protected from scale-in, whatever the size of their group.
func TestAGroupOfProtectedInstancesIsEmptied(t *testing.T) {
	p := newPlace(t, state(Drained, 2))
	p.group.desired, p.group.protected = 2, true
	if s, err := p.Next(p.untilItWaits(), false); err != nil || s.Step != Emptied || p.group.desired != 0 {
		t.Errorf("%v; %q; step %s with %d instances", err, p.said, s.Step, p.group.desired)
	}
}

// A Back that was interrupted may not have created the group again.
func TestNextGoesOnWithoutAGroupThatIsGone(t *testing.T) {
	s := state(Removed, 2)
	s.Back = true
	p := newPlace(t, s)
	p.group.gone = true
	for _, want := range []Step{Closed, Drained, Emptied, Removed} {
		if s, err := p.Next(p.untilItWaits(), true); err != nil || s.Step != want {
			t.Fatalf("%v; %q; step %s, want %s", err, p.said, s.Step, want)
		}
	}
	if len(p.group.calls) > 0 {
		t.Errorf("it calls %q", p.group.calls)
	}
}

// A Back that was interrupted may have resumed processes that were suspended before the migration.
func TestAClosedGroupLaunchesNothing(t *testing.T) {
	s := state(Emptied, 2)
	s.Back, s.Groups[0].Suspend = true, []string{"AZRebalance", "ReplaceUnhealthy"}
	p := newPlace(t, s)
	p.group.desired = 2
	if s, err := p.Next(p.untilItWaits(), false); err != nil || s.Step != Closed {
		t.Fatalf("%v; %q; step %s", err, p.said, s.Step)
	}
	if !slices.Equal(p.group.suspended, stopped) {
		t.Errorf("it suspends %q", p.group.suspended)
	}
}
