//go:build !noplane

package roll

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/roll"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// hurried is a clock on which waiting moves the time and is over at once.
type hurried struct{ *clock.Virtual }

func (h hurried) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := h.Virtual.AfterFunc(d, f)
	h.Advance(d)
	return t
}

// api is an API server that may refuse to list NodePools or to patch.
type api struct {
	client.Client
	pools   []karpv1.NodePool
	list    func() error
	claim   func() karpv1.NodeClaim
	patch   error
	patched []string
}

func (a *api) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	switch l := l.(type) {
	case *karpv1.NodePoolList:
		l.Items = a.pools
		return a.list()
	case *karpv1.NodeClaimList:
		l.Items = []karpv1.NodeClaim{a.claim()}
	}
	return nil
}

func (a *api) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	a.patched = append(a.patched, o.GetName())
	return a.patch
}

func poolNamed(name string, ready metav1.ConditionStatus) karpv1.NodePool {
	p := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Status.Conditions = []status.Condition{{Type: "Ready", Status: ready, Reason: "NodeClassNotReady"}}
	return p
}

var (
	refused   = &url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: syscall.ECONNREFUSED}
	nodePools = schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}
)

// newFollower follows the pool "general", whose node is replaced after half a minute. Nothing but a can be read, so
// that asking what holds the roll fails.
func newFollower(a *api) (*follower, *strings.Builder) {
	time, said := hurried{clock.NewVirtual(noon)}, &strings.Builder{}
	a.pools = []karpv1.NodePool{poolNamed("general", "True")}
	a.claim = func() karpv1.NodeClaim {
		c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-1", Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
		}, Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
		if time.Now().Sub(noon) > 30e9 {
			c.Annotations[karpv1.NodePoolHashAnnotationKey] = a.pools[0].Hash()
		}
		return c
	}
	f := &follower{
		poolOptions: &poolOptions{}, client: a, w: said,
		target: &target.Cluster{REST: &rest.Config{Host: "https://127.0.0.1:1"}, Clock: clock.NewServer(time)},
	}
	f.policy.Add(pflag.NewFlagSet("", pflag.ContinueOnError))
	return f, said
}

// A roll takes hours: what cannot be read for a while is said once and read again.
func TestARollIsFollowedBeyondAReadThatFails(t *testing.T) {
	reads := 0
	f, said := newFollower(&api{list: func() error {
		if reads++; reads < 3 {
			return refused
		}
		return nil
	}})
	_, err := f.follow(t.Context())
	lines := strings.Split(said.String(), "\n")
	if err != nil || len(lines) != 6 ||
		!strings.HasPrefix(lines[0], "reading the NodePools failed and is tried again: cluster https://127.0.0.1:1 cannot") ||
		lines[1] != "general: 1 node to replace, 0 up to date" ||
		!strings.HasPrefix(lines[2], "asking what holds the roll failed and is tried again: ") ||
		lines[4] != "No node needs an update." {
		t.Errorf("%v, said\n%s", err, said)
	}
}

// The time limit holds while nothing can be read, too.
func TestAFollowerThatReadsNothingEndsInTime(t *testing.T) {
	f, _ := newFollower(&api{list: func() error { return refused }})
	f.timeout = time.Minute
	if _, err := f.follow(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "nodes may be left to replace after 1m0s; the controller goes on") {
		t.Error(err)
	}
}

func TestWhatCannotBeReadAtAllEndsTheFollower(t *testing.T) {
	for want, err := range map[string]error{
		"does not accept the credentials of the kubeconfig": apierrors.NewUnauthorized("expired"),
		"nodeless rbac --view":                              apierrors.NewForbidden(nodePools, "", errors.New("no")),
	} {
		f, said := newFollower(&api{list: func() error { return err }})
		if _, err := f.follow(t.Context()); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), "; the controller goes on, and the same command follows it again") {
			t.Errorf("%v, want %q; said %q", err, want, said)
		}
	}
	f, _ := newFollower(&api{list: func() error { return nil }})
	f.names = []string{"gone"}
	var unknown *roll.UnknownError
	if _, err := f.follow(t.Context()); !errors.As(err, &unknown) {
		t.Errorf("a pool that does not exist: %v", err)
	}
}

// A forced roll begins in all pools or, if one of them launches nothing, in none.
func TestAForcedRollBeginsInAllPoolsOrNone(t *testing.T) {
	ready, broken := poolNamed("a", "True"), poolNamed("b", "False")
	a, o := &api{}, poolOptions{force: true}
	pools := []roll.Pool{{NodePool: &ready}, {NodePool: &broken}}
	err := o.begin(t.Context(), a, pools, clock.NewVirtual(noon))
	if err == nil || !strings.Contains(err.Error(), "NodePool b launches nothing") || len(a.patched) > 0 {
		t.Errorf("%v; begun: %v", err, a.patched)
	}
	broken = poolNamed("b", "True")
	if err := o.begin(t.Context(), a, pools, clock.NewVirtual(noon)); err != nil ||
		!slices.Equal(a.patched, []string{"a", "b"}) {
		t.Errorf("%v; begun: %v", err, a.patched)
	}
	a.patch = apierrors.NewForbidden(nodePools, "a", errors.New("no"))
	err = allowRoll("https://c", o.begin(t.Context(), a, pools, clock.NewVirtual(noon)))
	if err == nil || !strings.HasPrefix(err.Error(), "cluster https://c refuses: roll NodePool a: ") ||
		!strings.Contains(err.Error(), "--verb=patch --resource=nodepools.karpenter.sh") {
		t.Errorf("without the right: %v", err)
	}
}
