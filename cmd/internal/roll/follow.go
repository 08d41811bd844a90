//go:build !noplane

package roll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller/status"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/why"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/printable"
	"github.com/nodeless/nodeless/roll"
)

const (
	// lookEvery is how often the follower reads the NodeClaims.
	lookEvery = time.Second
	// askAfter is how long nothing must change before the follower asks what blocks the roll: a replacement takes that
	// long to boot.
	askAfter = 10 * time.Second
)

// follower follows a roll of NodePools until no node needs an update.
type follower struct {
	*poolOptions
	target *target.Cluster
	client client.Client
	names  []string
	w      io.Writer

	said, held      string
	changed         time.Time
	unread, unasked bool // which has been said
}

// followAgain is what an error says that ends only the following of a roll.
const followAgain = "the controller goes on, and the same command follows it again"

// follow follows the roll and returns the pools as they are in the end.
func (f *follower) follow(ctx context.Context) ([]roll.Pool, error) {
	now := f.target.Clock.Now
	begun, asked, left := now(), time.Time{}, "nodes may be"
	for {
		pools, unread := roll.Pools(ctx, f.client, f.names)
		if err := f.again(ctx, "reading the NodePools", &f.unread, explained(f.target.REST.Host, unread)); err != nil {
			return nil, err
		}
		if unread == nil {
			rows := rowsOf(pools)
			if f.progress(rows); needUpdate(rows) == 0 {
				_, err := fmt.Fprintln(f.w, "No node needs an update.")
				return pools, err
			}
			left = reason.Count(needUpdate(rows), "node")
		}
		if unread == nil && now().Sub(f.changed) >= askAfter && now().Sub(asked) >= askAfter {
			if err := f.again(ctx, "asking what holds the roll", &f.unasked, f.ask(ctx, pools)); err != nil {
				return nil, err
			}
			asked = now()
		}
		if f.timeout > 0 && now().Sub(begun) >= f.timeout {
			return nil, fmt.Errorf("%s left to replace after %s%s; %s", left, f.timeout, f.held, followAgain)
		}
		if err := clock.Sleep(ctx, f.target.Clock, lookEvery); err != nil {
			return nil, err
		}
	}
}

// again says once that something failed and is tried again, and returns errors that another try cannot help. told is
// whether it has been said.
func (f *follower) again(ctx context.Context, what string, told *bool, err error) error {
	_, unknown := errors.AsType[*roll.UnknownError](err)
	switch {
	case err != nil && (unknown || ctx.Err() != nil):
		return err
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return fmt.Errorf("%w; %s", err, followAgain)
	case err != nil && !*told:
		fmt.Fprintf(f.w, "%s failed and is tried again: %s\n", what, printable.Text(err.Error()))
	}
	*told = err != nil
	return nil
}

// progress prints how far the pools are, if that has changed.
func (f *follower) progress(rows []roll.Row) {
	var parts []string
	for _, r := range rows {
		if r.NeedUpdate > 0 || strings.Contains(f.said, r.Name+": ") {
			parts = append(parts, fmt.Sprintf("%s: %s to replace, %d up to date", r.Name, reason.Count(r.NeedUpdate, "node"),
				r.Ready))
		}
	}
	if text := strings.Join(parts, "; "); text != f.said {
		f.said, f.held, f.changed = text, "", f.target.Clock.Now()
		fmt.Fprintln(f.w, text)
	}
}

// ask prints what blocks the next node of each pool that needs an update, if that has changed.
func (f *follower) ask(ctx context.Context, pools []roll.Pool) error {
	policy, _, err := f.policy.Resolve()
	if err != nil {
		return err
	}
	options := f.target.Options
	options.Partial = true
	c, err := capture.Read(ctx, f.target.REST, options)
	if err != nil {
		return err
	}
	var texts []string
	for i := range pools {
		claim := next(&pools[i])
		if claim == nil {
			continue
		}
		if p := conditions.Of(pools[i].NodePool, status.ConditionPreflightPassed); p != nil && p.Status == "False" {
			texts = append(texts, fmt.Sprintf("preflight of %s: %s", pools[i].Name, p.Message))
		}
		a, err := why.Ask(ctx, c, policy, why.Subject{Kind: why.ClaimKind, Name: claim.Name})
		if err != nil {
			return err
		}
		texts = append(texts, holds(claim, a))
	}
	if text := "; " + strings.Join(texts, "; "); text != f.held {
		f.held = text
		_, err = fmt.Fprintln(f.w, "waiting: "+strings.TrimPrefix(text, "; "))
	}
	return err
}

// holds summarises in a line what an answer says about a node that needs an update.
func holds(claim *karpv1.NodeClaim, a *why.Answer) string {
	text := fmt.Sprintf("node %s: %s", claim.Status.NodeName, a.Summary)
	if len(a.Blockers) > 0 && a.Blockers[0].Clears != "" {
		text += "; clears " + a.Blockers[0].Clears
	}
	for _, fact := range a.Facts {
		if slices.Contains([]string{"replacement", "blocked"}, fact.Label) {
			text += "; " + fact.Label + " " + fact.Text
		}
	}
	return text
}

// next returns the NodeClaim that a roll waits for: one that is being replaced, else the first that needs an update;
// nil if none does.
func next(p *roll.Pool) *karpv1.NodeClaim {
	var first *karpv1.NodeClaim
	for i := range p.Claims {
		c := &p.Claims[i]
		if p.Outdated(c) == "" {
			continue
		}
		if _, replaced, _ := translate.CommandOf(c); replaced || c.DeletionTimestamp != nil {
			return c
		}
		if first == nil {
			first = c
		}
	}
	return first
}
