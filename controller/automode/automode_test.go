package automode

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
)

// keeper returns a Controller of the given pools in an API server that holds the given objects.
func keeper(t *testing.T, pools string, objects ...client.Object) (*Controller, *record.FakeRecorder) {
	t.Helper()
	parsed, err := ParsePools(pools)
	if err != nil {
		t.Fatal(err)
	}
	if err := eksv1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	events := record.NewFakeRecorder(10)
	return &Controller{o: Options{
		Settings: Settings{Pools: parsed, Class: DiscoveredClass("nodes", "prod")}, Recorder: events,
		Log: slog.New(slog.DiscardHandler), Client: fake.NewClientBuilder().WithObjects(objects...).Build(),
	}}, events
}

// reconciled reconciles all built-in objects and returns the names of the NodePools that exist afterwards.
func (c *Controller) reconciled(t *testing.T) (names []string) {
	t.Helper()
	for _, key := range []string{"NodeClass/default", "NodePool/general-purpose", "NodePool/system"} {
		if _, err := c.reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	var pools karpv1.NodePoolList
	if err := c.o.Client.List(t.Context(), &pools); err != nil {
		t.Fatal(err)
	}
	for _, p := range pools.Items {
		names = append(names, p.Name)
	}
	return names
}

func ownPool(name string) *karpv1.NodePool {
	return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestOnlyThePoolsThatAreEnabledAreBuiltIn(t *testing.T) {
	for what, test := range map[string]struct {
		pools string
		there *karpv1.NodePool
		want  []string
	}{
		"both":                         {"general-purpose,system", ownPool("web"), []string{"general-purpose", "system", "web"}},
		"one":                          {"general-purpose", ownPool("web"), []string{"general-purpose", "web"}},
		"the other was enabled before": {"general-purpose", nodePool("system"), []string{"general-purpose"}},
		"the other's name is free":     {"general-purpose", ownPool("system"), []string{"general-purpose", "system"}},
	} {
		c, _ := keeper(t, test.pools, test.there)
		if got := c.reconciled(t); !slices.Equal(got, test.want) {
			t.Errorf("%s: pools %v, want %v", what, got, test.want)
		}
	}
	if _, err := ParsePools("general-purpose,gpu"); err == nil || !strings.Contains(err.Error(), `"gpu" is no built-in NodePool`) {
		t.Errorf("an unknown pool: %v", err)
	}
}

// The events that a user sees who gives an object a reserved name or edits a built-in object.
func TestReservedNamesAreTold(t *testing.T) {
	edited := nodePool("general-purpose")
	edited.Spec.Weight = new(int32(5))
	class := &eksv1.NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	for what, test := range map[string]struct {
		object client.Object
		say    string
	}{
		"a pool of one's own": {ownPool("general-purpose"), "This name is reserved for the NodePool that is built into EKS Auto " +
			"Mode, which replaced the object; choose another name"},
		"a class of one's own": {class, "This name is reserved for the NodeClass that is built into EKS Auto Mode, which " +
			"replaced the object; choose another name"},
		"an edit": {edited, "This NodePool is built into EKS Auto Mode: the change was reverted; create a NodePool of your " +
			"own instead"},
	} {
		c, events := keeper(t, "general-purpose", test.object)
		c.reconciled(t)
		c.reconciled(t) // nothing is left to do
		close(events.Events)
		var told []string
		for e := range events.Events {
			told = append(told, e)
		}
		if !slices.Equal(told, []string{"Warning Reverted " + test.say}) {
			t.Errorf("%s: events %q", what, told)
		}
		var pool karpv1.NodePool
		if err := c.o.Client.Get(t.Context(), client.ObjectKey{Name: "general-purpose"}, &pool); err != nil ||
			!same(&pool, nodePool("general-purpose")) {
			t.Errorf("%s: the pool is %+v, %v", what, pool, err)
		}
	}
}

// The API server does not let a NodePool switch from an EC2NodeClass to a NodeClass.
func TestAReservedNameThatCannotBeTakenBackIsAnError(t *testing.T) {
	c, _ := keeper(t, "general-purpose", ownPool("general-purpose"))
	c.o.Client = interceptor.NewClient(c.o.Client.(client.WithWatch), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return apierrors.NewInvalid(schema.GroupKind{Group: "karpenter.sh", Kind: "NodePool"}, "general-purpose", nil)
		},
	})
	_, err := c.reconcile(t.Context(), "NodePool/general-purpose")
	if err == nil || !strings.Contains(err.Error(), "the name is reserved: delete the object that has it") {
		t.Errorf("got %v", err)
	}
}
