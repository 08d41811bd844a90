package transition

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// leaseTime is how long a Lease may be left without renewal by a controller that leads. Karpenter's Lease, and
// therefore Nodeless's, has at most this duration (15 s: k8s.io/client-go/tools/leaderelection).
const leaseTime = 15 * time.Second

// renewal is the content of the controller's Lease in one namespace.
type renewal struct {
	holder string // "" = nobody
	at     metav1.MicroTime
}

// leader finds the controller by its Lease, in whichever namespace.
type leader struct {
	kubernetes kubernetes.Interface
	clock      clock.Clock
	lease      string // its name
}

func leaderOf(t *Transition) leader { return leader{t.kubernetes, t.Clock, t.Lease} }

// renewals returns the controller's Leases by namespace.
func (l leader) renewals(ctx context.Context) (map[string]renewal, error) {
	leases, err := l.kubernetes.CoordinationV1().Leases("").List(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + l.lease})
	if err != nil {
		return nil, fmt.Errorf("list Leases: %w", err)
	}
	out := map[string]renewal{}
	for i := range leases.Items {
		x := &leases.Items[i]
		if x.Name != l.lease {
			continue
		}
		var r renewal
		if x.Spec.HolderIdentity != nil && x.Spec.RenewTime != nil {
			r = renewal{*x.Spec.HolderIdentity, *x.Spec.RenewTime}
		}
		out[x.Namespace] = r
	}
	return out, nil
}

// check returns an error if the controller has a Lease that nobody renews: nothing would launch nodes. Without a
// Lease, which a controller without leader election does not have, awaitNodes shows whether there is one. As in leader
// election, clocks of different hosts are not compared.
func (l leader) check(ctx context.Context) error {
	before, err := l.renewals(ctx)
	if err != nil || len(before) == 0 {
		return err
	}
	for until := l.clock.Now().Add(leaseTime); l.clock.Now().Before(until); {
		if err := clock.Sleep(ctx, l.clock, pollEvery); err != nil {
			return err
		}
		now, err := l.renewals(ctx)
		if err != nil {
			return err
		}
		for namespace, r := range now {
			if r.holder != "" && r != before[namespace] {
				return nil
			}
		}
	}
	return fmt.Errorf("no controller runs: nobody has renewed the Lease %s for %s, so that no node would "+
		"be launched; start the controller (kubectl get pods -A -o wide shows its pods), or name its Lease with "+
		"--leader-election-name, if it has another", l.lease, leaseTime)
}

// pods returns the pods of the controller, by namespace/name: the holders of its Lease, and the other
// replicas of their owners.
func (l leader) pods(ctx context.Context) (map[string]bool, error) {
	leases, err := l.renewals(ctx)
	if err != nil {
		return nil, err
	}
	if len(leases) == 0 {
		return nil, nil
	}
	pods, err := l.kubernetes.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	owners := map[string]bool{}
	for namespace, r := range leases {
		for i := range pods.Items {
			if p := &pods.Items[i]; r.heldBy(p, namespace) {
				owners[ownerOf(p)] = true
			}
		}
	}
	out := map[string]bool{}
	for i := range pods.Items {
		if p := &pods.Items[i]; owners[ownerOf(p)] {
			out[p.Namespace+"/"+p.Name] = true
		}
	}
	return out, nil
}

// heldBy reports whether a pod holds a Lease of a namespace. Its holder is named after the pod or, on the host network,
// after the node: then it may be any pod there that a Deployment has in the namespace.
func (r renewal) heldBy(p *corev1.Pod, namespace string) bool {
	host, _, _ := strings.Cut(r.holder, "_") // what follows is an ID of the process
	if host == "" || host == p.Name {
		return host != ""
	}
	label := func(name string) string { return strings.SplitN(name, ".", 2)[0] }
	owner := metav1.GetControllerOfNoCopy(p)
	return p.Spec.HostNetwork && p.Namespace == namespace && owner != nil && owner.Kind == "ReplicaSet" &&
		label(host) == label(p.Spec.NodeName)
}

// ownerOf returns the UID of a pod's controller, its own if it has none.
func ownerOf(p *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		return string(owner.UID)
	}
	return string(p.UID)
}
