// Package access identifies viewers by their bearer tokens and determines what they may see of a cluster. It asks the
// API server, by TokenReview and SubjectAccessReview, and caches the answers for half a minute.
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

// Remember is how long an answer is cached: a viewer whose rights are revoked may still look for that long.
const Remember = 30 * time.Second

// Bounds of requests and of the cache.
const (
	mostRemembered = 1000    // tokens
	mostNamespaces = 1000    // checked for one user at a time, see turn
	atOnce         = 8       // concurrent requests to the API server
	mostToken      = 8 << 10 // bytes
	answerWithin   = 15 * time.Second
)

// Rights are what a user may see.
type Rights struct {
	User      string
	Allow     view.Allow
	Decisions bool     // may list decisionlogs.nodeless.sh
	Usage     bool     // may list nodes.metrics.k8s.io
	Engine    bool     // may list all that decisions depend on, as why, the pending matrix and what if require
	Lacks     []string // the kinds that Engine lacks, such as "persistentvolumes" and "deployments.apps"
	Unasked   int      // namespaces that have not been checked yet, because there are too many to check at once
}

// All reports whether the user may see everything.
func (r *Rights) All() bool {
	a := &r.Allow
	return a.Nodes && a.Claims && a.Pools && a.Events && a.Pods && r.Decisions && r.Usage && r.Engine
}

// Key returns the same text for all users who may see the same.
func (r *Rights) Key() string {
	a := &r.Allow
	return fmt.Sprint(a.Nodes, a.Claims, a.Pools, a.Events, a.Pods, r.Decisions, r.Usage, r.Engine,
		strings.Join(a.Namespaces, ","), r.Lacks, r.Unasked > 0)
}

// Errors of Review.
var (
	ErrNobody = errors.New("the API server does not know this token, or the token has expired; create a new one, such " +
		"as: kubectl create token ACCOUNT")
	ErrNothing = errors.New("may list neither nodes nor pods of any namespace that has pods; an administrator allows " +
		"both: nodeless rbac --view --user NAME")
)

var errBusy = errors.New("too many people log in at once; try again in a while")

// Reviewer determines who users are and what they may see. It is safe for concurrent use.
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
	turn   turn
}

// New returns a Reviewer that asks as the user of cfg. namespaces returns the namespaces whose pods are shown; rules
// are the rights that the engine's answers require.
func New(cfg *rest.Config, c clock.Clock, namespaces func() []string, rules []rbacv1.PolicyRule) (*Reviewer, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 200, 400
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("ask about those who look: %w", err)
	}
	return &Reviewer{
		kube: kube, clock: c, namespaces: namespaces, rules: rules, slots: make(chan struct{}, atOnce),
		known: map[[sha256.Size]byte]answer{},
	}, nil
}

// Check fails if this process may not create TokenReviews and SubjectAccessReviews.
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
			return fmt.Errorf("this page may not create %s.%s, which it needs to authenticate and authorize its users; an "+
				"administrator allows it: kubectl create clusterrolebinding nodeless-page --clusterrole=system:auth-delegator "+
				"--user=NAME; the controller gets it by nodeless rbac --page", of[1], of[0])
		}
	}
	return nil
}

// Review returns what the bearer of a token may see. The error is ErrNobody if the token is not valid, and ErrNothing
// if its bearer may see nothing.
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
	// Others may wait for the same answer, so neither the request nor its wait for a slot ends with the first caller.
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
		next := a.turn
		rights, err := r.ask(ctx, token, &next)
		if err == nil || errors.Is(err, ErrNobody) || errors.Is(err, ErrNothing) {
			r.remember(key, answer{rights, err, r.clock.Now(), next})
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

// remember caches an answer. A full cache first drops expired answers, then arbitrary ones.
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

func (r *Reviewer) ask(ctx context.Context, token string, t *turn) (*Rights, error) {
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
	return r.rights(ctx, &review.Status.User, t)
}
