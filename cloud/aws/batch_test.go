package aws

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Concurrent requests are merged into one call; none waits longer than batchMax for others.
func TestBatcherMergesWhatComesTogether(t *testing.T) {
	clk := clock.NewVirtual(time.Unix(0, 0))
	var calls [][]string
	b := newBatcher(t.Context(), clk, func(_ context.Context, ids []string) map[string]outcome[string] {
		calls = append(calls, slices.Sorted(slices.Values(ids)))
		out := map[string]outcome[string]{}
		for _, id := range ids {
			out[id] = outcome[string]{value: "of " + id}
		}
		return out
	})
	first := b.join("a")
	for range int(batchMax/batchIdle) * 2 {
		clk.Advance(batchIdle / 2)
		b.join("b")
		if first.sent {
			break
		}
	}
	select {
	case <-first.done:
	default:
		t.Fatal("late-comers kept a batch open beyond its time")
	}
	if len(calls) != 1 || !slices.Equal(calls[0], []string{"a", "b"}) {
		t.Errorf("calls %v", calls)
	}
	if o := first.out["a"]; o.value != "of a" || o.err != nil {
		t.Errorf("outcome %+v", o)
	}
	if again := b.join("c"); again == first {
		t.Error("a question joined a batch that was sent")
	}
}

// An instance that cannot be terminated keeps no other from it. A call that EC2 throttles is not made again for each.
func TestAProtectedInstanceEndsNoOthersTermination(t *testing.T) {
	a, p, _ := stage(t)
	var ids []string
	for _, claim := range []string{"a", "b"} {
		ids = append(ids, mustLaunch(t, p, requestFor(claim)).Instance.ID)
	}
	a.protected = ids[1]
	a.fail["TerminateInstances"] = []error{apiError("RequestLimitExceeded", "slow down")}
	out := p.instances.terminateBatch(t.Context(), ids)
	if calls := a.count("TerminateInstances"); calls != 1 || !errors.Is(out[ids[0]].err, cloud.ErrThrottled) {
		t.Errorf("throttled: %d calls, %+v", calls, out)
	}
	out = p.instances.terminateBatch(t.Context(), ids)
	if out[ids[0]].err != nil || code(out[ids[1]].err) != "OperationNotPermitted" {
		t.Errorf("outcomes %+v", out)
	}
	if state := a.instances[0].State.Name; state != ec2types.InstanceStateNameShuttingDown {
		t.Errorf("the unprotected instance is %s", state)
	}
}
