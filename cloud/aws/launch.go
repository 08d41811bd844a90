package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// maxCalls bounds the CreateFleet calls of one Launch.
const maxCalls = 10

// Launch starts one instance.
//
// Nothing is launched twice, also across a crash. A claim's calls carry the client tokens <token>-0, <token>-1, … and
// the next one is used only after it is certain that the one before started nothing. EC2 answers a repeated token with
// what it did the first time. If the parameters differ meanwhile (another price order, another free subnet) it refuses
// with IdempotentParameterMismatch: then an earlier call happened, and its instance, if it had one, carries the token
// as a tag. So the walk from 0 after a restart meets every instance that an earlier life started, whatever is chosen
// now.
func (p *Provider) Launch(ctx context.Context, req cloud.LaunchRequest) (_ cloud.LaunchResult, err error) {
	defer p.called("Launch", p.now(), &err)
	if req.Token == "" || req.Claim == "" {
		return cloud.LaunchResult{}, errors.New("launch: token and claim name must be set; instances are found again by them")
	}
	class, err := p.readyClass(req.Class)
	if err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("launch for claim %s: %w", req.Claim, err)
	}
	catalog, err := p.catalogs.of(ctx, class)
	if err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("launch for claim %s: %w", req.Claim, err)
	}
	state, err := p.launches.begin(ctx, req.Token)
	if err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("launch for claim %s: %w", req.Claim, err)
	}
	defer state.end()
	if state.result != nil {
		return *state.result, nil
	}
	l := &launch{
		p: p, class: class, catalog: catalog, req: &req, state: state, choices: catalog.choices(&req),
		tried: map[model.OfferingKey]bool{}, exhausted: map[model.OfferingKey]bool{}, full: map[string]bool{},
	}
	instance, err := l.run(ctx)
	result := cloud.LaunchResult{Instance: instance, Exhausted: sortedKeysOf(l.exhausted)}
	if err != nil {
		return result, fmt.Errorf("launch for claim %s: %w", req.Claim, err)
	}
	state.result = &result
	return result, nil
}

// launch is one Launch under way.
type launch struct {
	p         *Provider
	class     *ec2v1.EC2NodeClass
	catalog   *classCatalog
	req       *cloud.LaunchRequest
	state     *launchState
	choices   []choice
	tried     map[model.OfferingKey]bool // named in a call that gave nothing
	exhausted map[model.OfferingKey]bool // EC2 said that it has none
	full      map[string]bool            // subnets without addresses
	remade    bool                       // launch templates were made again
}

// errNothing: the call was made and started nothing; other choices may do better.
var errNothing = errors.New("nothing was launched")

func (l *launch) run(ctx context.Context) (cloud.Instance, error) {
	cause := error(nil)
	for range maxCalls {
		choices := next(l.choices, l.tried)
		if l.req.Prices != nil && len(choices) > 0 && choices[0].CapacityType == model.Spot {
			choices = near(choices)
		}
		if len(choices) == 0 {
			break
		}
		instance, err := l.call(ctx, choices)
		switch {
		case err == nil:
			return instance, nil
		case errors.Is(err, errNothing):
			l.state.next++
			l.state.mismatch = time.Time{}
			cause = err
		case code(err) == codeTokenMismatch:
			instance, err := l.earlier(ctx)
			if err != nil || instance.ID != "" {
				return instance, err
			}
			l.state.next++
			l.state.mismatch = time.Time{}
		default:
			return cloud.Instance{}, err
		}
	}
	if len(l.choices) == 0 {
		return cloud.Instance{}, fmt.Errorf("all requested instance types were unavailable during launch: "+
			"no available offering holds %v and satisfies [%s]: %w",
			named(l.req.Requests), l.req.Requirements, cloud.ErrNoCapacity)
	}
	if cause == nil {
		cause = errNothing
	}
	return cloud.Instance{}, fmt.Errorf("%d of %d offerings tried: %w: %w", len(l.tried), len(l.choices), cause,
		cloud.ErrNoCapacity)
}

// named lists the resources that are asked for, by name.
func named(r model.Resources) []string {
	var out []string
	for i, amount := range r {
		if amount > 0 && i < len(model.WellKnownResources) {
			out = append(out, fmt.Sprintf("%s=%d", model.WellKnownResources[i], amount))
		}
	}
	return out
}

// earlier finds the instance that an earlier call with this launch's token started. Without one, it waits for EC2's
// lists to settle before it believes that there is none: they lag behind its launches.
func (l *launch) earlier(ctx context.Context) (cloud.Instance, error) {
	instances, err := l.p.instances.byToken(ctx, l.req.Token)
	if err != nil {
		return cloud.Instance{}, err
	}
	gone := false
	for _, m := range instances {
		if m.State != cloud.Terminating && m.State != cloud.Terminated {
			return l.catalog.describe(m), nil
		}
		gone = true
	}
	now := l.p.now()
	if l.state.mismatch.IsZero() {
		l.state.mismatch = now
	}
	if gone || now.Sub(l.state.mismatch) >= settleAfter {
		return cloud.Instance{}, nil
	}
	return cloud.Instance{}, fmt.Errorf("an earlier launch with the same token is known to EC2, its instance is not "+
		"listed yet; trying again until %s have passed",
		settleAfter)
}

// clientToken is EC2's token of this launch's next call: at most 64 characters.
func (l *launch) clientToken() string {
	token := l.req.Token + "-" + strconv.Itoa(l.state.next)
	if len(token) <= 64 {
		return token
	}
	sum := sha256.Sum256([]byte(l.req.Token))
	return hex.EncodeToString(sum[:])[:40] + "-" + strconv.Itoa(l.state.next)
}

// launchBook holds what became of tokens, so that the same token is not worked on twice at a time and is answered from
// memory afterwards.
type launchBook struct {
	clk clock.Clock

	mu     sync.Mutex
	states map[string]*launchState
	swept  time.Time
}

// launchState is owned by whoever holds busy.
type launchState struct {
	busy     chan struct{} // holds one item while somebody works on the token
	clk      clock.Clock
	at       time.Time           // when it was last used; guarded by launchBook.mu
	next     int                 // number of the next client token
	mismatch time.Time           // when EC2 first refused it, zero if it did not
	result   *cloud.LaunchResult // once there is an instance
}

func newLaunchBook(clk clock.Clock) *launchBook {
	return &launchBook{clk: clk, states: map[string]*launchState{}, swept: clk.Now()}
}

// begin waits until nobody else works on the token.
func (b *launchBook) begin(ctx context.Context, token string) (*launchState, error) {
	b.mu.Lock()
	now := b.clk.Now()
	if now.Sub(b.swept) > launchMemory/4 {
		b.swept = now
		for t, s := range b.states {
			if len(s.busy) == 0 && now.Sub(s.at) > launchMemory {
				delete(b.states, t)
			}
		}
	}
	s := b.states[token]
	if s == nil {
		s = &launchState{busy: make(chan struct{}, 1), clk: b.clk}
		b.states[token] = s
	}
	s.at = now
	b.mu.Unlock()
	select {
	case s.busy <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *launchState) end() { <-s.busy }

func sortedKeysOf(m map[model.OfferingKey]bool) []model.OfferingKey {
	return slices.SortedFunc(maps.Keys(m), func(a, b model.OfferingKey) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
}
