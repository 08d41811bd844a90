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

// maxCalls limits the CreateFleet calls of one Launch.
const maxCalls = 10

// Launch starts one instance.
//
// Nothing is launched twice, not even across a crash. The calls for a claim carry the client tokens <token>-0,
// <token>-1, …; the next one is used only once it is certain that the previous one started nothing. EC2 answers a
// repeated token with the result of the first call. If the parameters have changed since (other prices, another free
// subnet), EC2 refuses with IdempotentParameterMismatch: an earlier call took place, and its instance, if there is
// one, carries the token as a tag. So after a restart, trying the tokens from 0 finds every instance that an earlier
// process started, whatever the parameters are now.
func (p *Provider) Launch(ctx context.Context, req cloud.LaunchRequest) (_ cloud.LaunchResult, err error) {
	defer p.called("Launch", p.now(), &err)
	if req.Token == "" || req.Claim == "" {
		return cloud.LaunchResult{}, errors.New("launch: token and claim name must be set; instances are found again by them")
	}
	class, err := p.readyClass(req.Class)
	if err != nil {
		return cloud.LaunchResult{}, fmt.Errorf("launch for claim %s: %w", req.Claim, err)
	}
	if p.lacksServiceCIDR(class) {
		return cloud.LaunchResult{}, fmt.Errorf("launch for claim %s: %s: the range of the cluster's Services is not "+
			"known: %w", req.Claim, title(class), cloud.ErrClassNotReady)
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
	if isNodeGroup(class) {
		result, err := p.groups.launchInGroup(ctx, class, catalog, &req)
		if err != nil {
			return result, fmt.Errorf("launch for claim %s: %w", req.Claim, err)
		}
		state.result = &result
		return result, nil
	}
	l := &launch{
		p: p, class: class, catalog: catalog, req: &req, state: state, spent: map[string]bool{},
		tried: map[model.OfferingKey]bool{}, exhausted: map[model.OfferingKey]bool{}, full: map[string]bool{},
	}
	var placed bool
	if l.partition, placed = catalog.placement.partitionFor(&req); placed {
		l.choices = p.zonalShifts.without(catalog.choices(&req))
		l.reserved = p.zonalShifts.without(p.reservedChoices(class, catalog, &req))
	}
	if l.dedicated = catalog.tenancies && dedicated(req.Requirements); l.dedicated {
		l.reserved = nil // a reservation of default tenancy takes no dedicated instance
	}
	instance, err := l.run(ctx)
	result := cloud.LaunchResult{
		Instance: instance, Exhausted: sortedKeysOf(l.exhausted), OfClass: catalog.placement.id != "" || l.dedicated,
	}
	if err != nil {
		return result, fmt.Errorf("launch for claim %s: %w", req.Claim, err)
	}
	state.result = &result
	return result, nil
}

// launch is the state of one Launch.
type launch struct {
	p         *Provider
	class     *ec2v1.EC2NodeClass
	catalog   *classCatalog
	req       *cloud.LaunchRequest
	state     *launchState
	choices   []choice
	reserved  []choice                   // from capacity reservations
	spent     map[string]bool            // reservations named in a call that started nothing
	tried     map[model.OfferingKey]bool // named in a call that started nothing
	exhausted map[model.OfferingKey]bool // EC2 has no capacity for them
	full      map[string]bool            // subnets without free addresses
	recreated bool                       // launch templates were recreated
	partition int32                      // of the placement group; 0 = none
	dedicated bool                       // tenancy
}

// errNothingLaunched means that a call started nothing; other choices may succeed.
var errNothingLaunched = errors.New("nothing was launched")

func (l *launch) run(ctx context.Context) (cloud.Instance, error) {
	cause := error(nil)
	for range maxCalls {
		choices := l.next()
		if len(choices) == 0 {
			break
		}
		instance, err := l.call(ctx, choices)
		switch {
		case err == nil:
			return instance, nil
		case errors.Is(err, errNothingLaunched):
			l.state.next++
			l.state.mismatch = time.Time{}
			cause = err
		case code(err) == codeTokenMismatch:
			instance, err := l.earlierLaunch(ctx)
			if err != nil || instance.ID != "" {
				return instance, err
			}
			l.state.next++
			l.state.mismatch = time.Time{}
		default:
			return cloud.Instance{}, err
		}
	}
	if len(l.choices)+len(l.reserved) == 0 {
		return cloud.Instance{}, fmt.Errorf("all requested instance types were unavailable during launch: "+
			"no available offering holds %v and satisfies [%s]: %w",
			named(l.req.Requests), l.req.Requirements, cloud.ErrNoCapacity)
	}
	if cause == nil {
		cause = errNothingLaunched
	}
	return cloud.Instance{}, fmt.Errorf("%d of %d offerings tried: %w: %w", len(l.tried)+len(l.spent),
		len(l.choices)+len(l.reserved), cause, cloud.ErrNoCapacity)
}

// next returns the choices of the next call: one reservation, or choices of one capacity type.
func (l *launch) next() []choice {
	for _, o := range l.reserved {
		if !l.spent[o.from.id] {
			return []choice{o}
		}
	}
	choices := nextChoices(l.choices, l.tried)
	if l.req.Prices != nil && len(choices) > 0 && choices[0].CapacityType == model.Spot {
		return closeInPrice(choices)
	}
	return choices
}

// named returns the requested amounts of resources, by name.
func named(r model.Resources) []string {
	var out []string
	for i, amount := range r {
		if amount > 0 && i < len(model.WellKnownResources) {
			out = append(out, fmt.Sprintf("%s=%d", model.WellKnownResources[i], amount))
		}
	}
	return out
}

// earlierLaunch finds the instance that an earlier call with this launch's token started. If there is none, it
// returns an error until EC2's lists, which lag behind its launches, have had time to settle.
func (l *launch) earlierLaunch(ctx context.Context) (cloud.Instance, error) {
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

// clientToken returns the token of this launch's next call, which EC2 limits to 64 characters.
func (l *launch) clientToken() string {
	token := l.req.Token + "-" + strconv.Itoa(l.state.next)
	if len(token) <= 64 {
		return token
	}
	sum := sha256.Sum256([]byte(l.req.Token))
	return hex.EncodeToString(sum[:])[:40] + "-" + strconv.Itoa(l.state.next)
}

// launchStates remembers the outcomes of tokens: one caller at a time works on a token, and a token that has an
// instance is answered from memory.
type launchStates struct {
	clk clock.Clock

	mu     sync.Mutex
	states map[string]*launchState
	swept  time.Time
}

// launchState belongs to the holder of busy.
type launchState struct {
	busy     chan struct{} // holds an item while a caller works on the token
	clk      clock.Clock
	at       time.Time           // of the last use; guarded by launchStates.mu
	next     int                 // number of the next client token
	mismatch time.Time           // when EC2 first refused the token; zero if it has not
	result   *cloud.LaunchResult // once there is an instance
}

func newLaunchStates(clk clock.Clock) *launchStates {
	return &launchStates{clk: clk, states: map[string]*launchState{}, swept: clk.Now()}
}

// begin waits until no other caller works on the token.
func (b *launchStates) begin(ctx context.Context, token string) (*launchState, error) {
	b.mu.Lock()
	now := b.clk.Now()
	if now.Sub(b.swept) > launchResultAge/4 {
		b.swept = now
		for t, s := range b.states {
			if len(s.busy) == 0 && now.Sub(s.at) > launchResultAge {
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
