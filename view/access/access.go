// Package access says who somebody is by their bearer token, and what of a cluster they may look at. It asks the API
// server, by TokenReview and SubjectAccessReview, and remembers the answers for half a minute.
package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authn "k8s.io/api/authentication/v1"
	authz "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/view"
)

// Remember is how long an answer is believed: so long may somebody still look who may not any more.
const Remember = 30 * time.Second

// Bounds of what is asked and remembered.
const (
	mostRemembered = 1000    // tokens
	mostNamespaces = 500     // that are asked about for one user
	atOnce         = 8       // questions to the API server
	mostToken      = 8 << 10 // bytes
	answerWithin   = 15 * time.Second
)

// Rights are what somebody may look at.
type Rights struct {
	User      string
	Allow     view.Allow
	Decisions bool     // list decisionlogs.nodeless.sh
	Engine    bool     // list everything that decisions depend on: why, the pending matrix and what if need it
	Lacks     []string // what Engine lacks, such as "persistentvolumes" and "deployments.apps"
	Unasked   int      // namespaces that were not asked about, since there are so many
}

// All reports whether there is nothing that they may not see.
func (r *Rights) All() bool {
	a := &r.Allow
	return a.Nodes && a.Claims && a.Pools && a.Events && a.Pods && r.Decisions && r.Engine
}

// Key is the same for all who may see the same.
func (r *Rights) Key() string {
	a := &r.Allow
	return fmt.Sprint(a.Nodes, a.Claims, a.Pools, a.Events, a.Pods, r.Decisions, r.Engine, strings.Join(a.Namespaces, ","),
		r.Lacks)
}

// Errors of Review.
var (
	ErrNobody = errors.New("the API server does not know this token, or it is over; make a new one, such as: kubectl " +
		"create token ACCOUNT")
	ErrNothing = errors.New("may list neither nodes nor pods of any namespace that has some; an administrator allows " +
		"the whole: nodeless rbac --view --user NAME")
)

var errBusy = errors.New("too many people log in at once; try again in a while")

// Reviewer asks who somebody is and what they may. It is safe for concurrent use.
type Reviewer struct {
	kube       kubernetes.Interface
	clock      clock.Clock
	namespaces func() []string
	rules      []rbacv1.PolicyRule

	flight singleflight.Group
	slots  chan struct{}
	mu     sync.Mutex
	known  map[[sha256.Size]byte]answer
}

type answer struct {
	rights *Rights
	err    error
	at     time.Time
}

// New returns a Reviewer that asks as the user of a configuration. Namespaces are those whose pods are shown, rules
// what somebody must be allowed who asks the engine.
func New(cfg *rest.Config, c clock.Clock, namespaces func() []string, rules []rbacv1.PolicyRule) (*Reviewer, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 100, 200
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("ask about those who look: %w", err)
	}
	return &Reviewer{
		kube: kube, clock: c, namespaces: namespaces, rules: rules, slots: make(chan struct{}, atOnce),
		known: map[[sha256.Size]byte]answer{},
	}, nil
}

// Check fails if this process may not ask.
func (r *Reviewer) Check(ctx context.Context) error {
	for _, of := range [][2]string{
		{"authentication.k8s.io", "tokenreviews"},
		{"authorization.k8s.io", "subjectaccessreviews"},
	} {
		review, err := r.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authz.SelfSubjectAccessReview{
			Spec: authz.SelfSubjectAccessReviewSpec{ResourceAttributes: &authz.ResourceAttributes{
				Verb:  "create",
				Group: of[0], Resource: of[1],
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the API server whether this page may create %s.%s: %w", of[1], of[0], err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("this page may not create %s.%s, by which it would find out who its readers are; an "+
				"administrator allows it: kubectl create clusterrolebinding nodeless-page --clusterrole=system:auth-delegator "+
				"--user=NAME; the controller gets it by nodeless rbac --page", of[1], of[0])
		}
	}
	return nil
}

// Review is what the bearer of a token may look at. The error is ErrNobody if it is nobody's; ErrNothing if they may
// see nothing.
func (r *Reviewer) Review(ctx context.Context, token string) (*Rights, error) {
	if token == "" || len(token) > mostToken {
		return nil, ErrNobody
	}
	key := sha256.Sum256([]byte(token))
	r.mu.Lock()
	a, ok := r.known[key]
	r.mu.Unlock()
	if ok && r.clock.Now().Sub(a.at) < Remember {
		return a.rights, a.err
	}
	// Others may wait for the same answer: neither the question nor its wait for a slot ends with whoever asked first.
	answers := r.flight.DoChan(string(key[:]), func() (any, error) {
		late := time.NewTimer(answerWithin)
		defer late.Stop()
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		case <-late.C:
			return nil, errBusy
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		rights, err := r.ask(ctx, token)
		if err == nil || errors.Is(err, ErrNobody) || errors.Is(err, ErrNothing) {
			r.remember(key, answer{rights, err, r.clock.Now()})
		}
		return rights, err
	})
	select {
	case a := <-answers:
		rights, _ := a.Val.(*Rights)
		return rights, a.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remember forgets what is old, and if that is not enough what happens to come.
func (r *Reviewer) remember(key [sha256.Size]byte, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostRemembered {
		for k, old := range r.known {
			if a.at.Sub(old.at) >= Remember {
				delete(r.known, k)
			}
		}
		for k := range r.known {
			if len(r.known) < mostRemembered {
				break
			}
			delete(r.known, k)
		}
	}
	r.known[key] = a
}

func (r *Reviewer) ask(ctx context.Context, token string) (*Rights, error) {
	review, err := r.kube.AuthenticationV1().TokenReviews().Create(ctx,
		&authn.TokenReview{Spec: authn.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the page may not ask who you are: %w; an administrator allows it: nodeless rbac --page", err)
	case err != nil:
		return nil, fmt.Errorf("the API server does not say who you are: %w", err)
	case !review.Status.Authenticated:
		return nil, ErrNobody
	}
	return r.rights(ctx, &review.Status.User)
}
