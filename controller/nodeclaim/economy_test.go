package nodeclaim_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// writes records the controller's successful write requests, as "PATCH nodeclaims/name/status".
type writes struct {
	mu   sync.Mutex
	list []string
}

func (s *story) counted(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			// A request that met a conflict is repeated; how often depends on other writers.
			if err == nil && r.Method != http.MethodGet && answer.StatusCode < http.StatusMultipleChoices {
				s.writes.mu.Lock()
				s.writes.list = append(s.writes.list, r.Method+" "+r.URL.Path[strings.Index(r.URL.Path, "/v1/")+len("/v1/"):])
				s.writes.mu.Unlock()
			}
			return answer, err
		})
	})
	return c
}

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// of returns the writes to one object.
func (w *writes) of(kind, name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, one := range w.list {
		if strings.Contains(one, " "+kind+"/"+name) {
			out = append(out, one)
		}
	}
	return out
}

// Karpenter needs about 11 patches of a claim and 5 of its Node until pods run on it, counted on this API server.
func TestALifeTakesFewWrites(t *testing.T) {
	s := tell(t)
	pool := s.pool("economy")
	claim := s.ready("economy-1", ownedBy(pool))
	if claims, nodes := s.writes.of("nodeclaims", "economy-1"),
		s.writes.of("nodes", "economy-1"); len(claims) > 4 || len(nodes) > 2 {
		t.Errorf("until it is ready:\n%s\n%s", strings.Join(claims, "\n"), strings.Join(nodes, "\n"))
	}
	s.delete(claim)
	s.untilGone(claim)
	if claims, nodes := s.writes.of("nodeclaims", "economy-1"),
		s.writes.of("nodes", "economy-1"); len(claims) > 7 || len(nodes) > 6 {
		t.Errorf("for all its life:\n%s\n%s", strings.Join(claims, "\n"), strings.Join(nodes, "\n"))
	}
}

// A claim that another client created without a pool gets the metadata it needs to be found again. A Node that
// registers without the unregistered taint is used all the same, and an event says so.
func TestAClaimThatSomebodyElseMadeIsTakenCareOf(t *testing.T) {
	s := tell(t)
	ctx := context.Background()
	s.claim("bare")
	s.until("bare", karpv1.ConditionTypeLaunched)
	s.must(s.api.Create(ctx, &corev1.Node{
		ObjectMeta: metaOf("bare", map[string]string{corev1.LabelHostname: "its-own-name"}),
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/i-bare"},
	}))
	claim := s.until("bare", karpv1.ConditionTypeRegistered)
	if got := claim.StatusConditions().Get(karpv1.ConditionTypeRegistered).Reason; got != "UnregisteredTaintMissing" {
		t.Errorf("registered with reason %q", got)
	}
	s.event("bare", "UnregisteredTaintMissing")
	if claim.Labels["karpenter.k8s.aws/ec2nodeclass"] != "default" || len(claim.Finalizers) != 1 {
		t.Errorf("claim is not prepared: %v", claim.ObjectMeta)
	}
	node := &corev1.Node{}
	s.must(s.api.Get(ctx, client.ObjectKey{Name: "bare"}, node))
	if node.Labels[corev1.LabelHostname] != "its-own-name" ||
		node.Labels["karpenter.k8s.aws/ec2nodeclass"] != "default" || len(node.OwnerReferences) != 1 ||
		node.OwnerReferences[0].Controller != nil || node.OwnerReferences[0].BlockOwnerDeletion == nil ||
		!*node.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("node is %v", node.ObjectMeta)
	}
}
