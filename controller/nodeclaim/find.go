package nodeclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// A machine that was just started may be missing from the cloud's lists so long, and is looked for so often.
const (
	listsSettle = 10 * time.Second
	lookAgain   = time.Second
)

// inherit takes over what is there: all claims are looked at, and those noted that an earlier process may have launched
// without writing it down.
func (l *Lifecycle) inherit(ctx context.Context) error {
	l.leads.Store(true) // before the lists: what changes from here on is an event
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&claims, &nodes} {
		if err := l.o.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list what is there: %w", err)
		}
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Status.ProviderID == "" {
			l.setSent(c.UID, true)
		}
		l.claims.Add(c.Name)
	}
	for i := range nodes.Items {
		l.sawNode(nil, &nodes.Items[i])
	}
	return nil
}

// machineOf is the ID of the machine of a claim that is being deleted, "" if it has none for sure; a positive duration
// asks to look again then. A launch that nobody wrote down, since the process ended or the answer was lost, is found by
// its tag; that there is none is believed only when the cloud's lists had time to settle.
func (l *Lifecycle) machineOf(ctx context.Context, claim *karpv1.NodeClaim) (string, time.Duration, error) {
	if id := machineID(claim.Status.ProviderID); id != "" {
		return id, 0, nil
	}
	l.mu.Lock()
	got, launched := l.launched[claim.UID]
	none := l.failed[claim.UID] || !l.sent[claim.UID]
	l.mu.Unlock()
	if launched {
		return got.Instance.ID, 0, nil
	}
	if none {
		return "", 0, nil
	}
	machines, err := l.lists.machines(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("look for the machine of NodeClaim %s: %w", claim.Name, err)
	}
	for _, m := range machines {
		if m.Claim == claim.Name && m.State != cloud.Terminated {
			l.mu.Lock()
			l.launched[claim.UID] = cloud.LaunchResult{Instance: m}
			l.mu.Unlock()
			return m.ID, 0, nil
		}
	}
	if l.lookedFor(claim.UID) < listsSettle {
		return "", lookAgain, nil
	}
	return "", 0, nil
}

// lookedFor is how long ago the machine of a claim was first looked for.
func (l *Lifecycle) lookedFor(uid types.UID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked[uid].IsZero() {
		l.looked[uid] = l.now()
	}
	return l.now().Sub(l.looked[uid])
}
