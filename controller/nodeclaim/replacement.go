package nodeclaim

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// A Node whose instance the cloud takes away is drained once the instances for its pods are launched. Until then its
// pods keep running: EC2 gives two minutes. See docs/adr/0007-replacements-before-an-interrupted-node-is-drained.md.
const (
	// interruptionNotice is how long before the end EC2 warns, less the time until the warning arrives.
	interruptionNotice = 105 * time.Second
	// maxReplacementWait is the longest wait for the launch of the replacements; it is shorter if the pods need longer
	// to end.
	maxReplacementWait = time.Minute
	// replacementPoll is how often the launch is checked. Usually an event comes first.
	replacementPoll = time.Second
)

// replacements knows which claims an interrupted claim waits for. A claim goes through these states:
//
//	State       | Is seen by                                    | Ends when
//	------------+-----------------------------------------------+----------------------------------------
//	interrupted | annotation interrupted                        | a plan that knew it was applied
//	planned     | plans has it, and is not open                 | all claims of the plan are launched
//	drained     | deletionTimestamp, after maxReplacementWait   |
//	            | even if it was never planned or ready         |
type replacements struct {
	*objects
	claims *workqueue.Queue
	end    func(context.Context, *karpv1.NodeClaim, cloud.InterruptionKind) error // deletes a claim

	mu    sync.Mutex
	plans map[string]replacementStatus // by interrupted claim; of the last plan
}

// replacementStatus is where the last plan places the pods of an interrupted claim.
type replacementStatus struct {
	claims    []string // to be launched before its Node is drained
	competing []*queue // for pods that could take the places of its pods
	open      bool     // the plan was not applied entirely, or was made too early: another one follows
}

// queue is where a plan places the pods of one shape that have no Node or are already evicted from theirs.
type queue struct {
	claims []string // to be launched
	open   bool     // not all of it was applied
}

// note writes on the claim that its instance is being taken away. Everything else follows from the claim: the notice
// may be removed from its queue, and the process may end.
func (p *replacements) note(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind) error {
	if err := p.annotate(ctx, claim, translate.AnnotationInterrupted, translate.Interruption(string(kind),
		p.now())); err != nil {
		return err
	}
	p.log.Info("instance is interrupted", "nodeclaim", claim.Name, "instance", catalog.InstanceID(claim.Status.ProviderID),
		"reason", kind)
	p.claims.Add(claim.Name)
	return nil
}

// step deletes an interrupted claim once instances for its pods are launched. It keeps new pods off its Node
// immediately.
func (p *replacements) step(ctx context.Context, r *reconciliation) (bool, error) {
	kind, since, ok := translate.Interrupted(r.claim)
	if !ok {
		return true, nil
	}
	nodes, err := p.nodesOf(ctx, r.claim.Status.ProviderID)
	if err != nil {
		return false, err
	}
	for _, node := range nodes {
		if hasTaint(node, karpv1.DisruptedNoScheduleTaint) {
			continue
		}
		before := node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		if err := p.writeNode(ctx, before, node); err != nil {
			return false, err
		}
	}
	if left := p.until(since, p.maxWait(nodes)); left > 0 && !p.ready(r.claim.Name) {
		r.requeueAfter(min(left, replacementPoll))
		return false, nil
	}
	return false, p.end(ctx, r.claim, cloud.InterruptionKind(kind))
}

// maxWait returns how long to wait for the replacements of the pods on these Nodes: each pod must still have its own
// grace period.
func (p *replacements) maxWait(nodes []*corev1.Node) time.Duration {
	if len(nodes) == 0 {
		return 0
	}
	wait := maxReplacementWait
	for _, node := range nodes {
		for _, pod := range p.cluster.PodsOnNode(node.Name) {
			s := pod.Spec.TerminationGracePeriodSeconds
			if s != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
				wait = min(wait, interruptionNotice-time.Duration(*s)*time.Second)
			}
		}
	}
	return wait
}

// ready reports whether a plan knew that the claim is interrupted, and both the claims for its pods and those for
// similar pods that are already waiting are launched: kube-scheduler does not know which pod a node is meant for.
func (p *replacements) ready(claim string) bool {
	p.mu.Lock()
	s, planned := p.plans[claim]
	p.mu.Unlock()
	if !planned || s.open || !p.areLaunched(s.claims) {
		return false
	}
	return !slices.ContainsFunc(s.competing, func(q *queue) bool { return q.open || !p.areLaunched(q.claims) })
}

// areLaunched reports whether all claims have their instances. Another plan follows if one fails.
func (p *replacements) areLaunched(claims []string) bool {
	return !slices.ContainsFunc(claims, func(name string) bool {
		next := p.cluster.Claim(name)
		return next == nil || next.DeletionTimestamp != nil || next.Status.ProviderID == ""
	})
}

// decided records a plan that was applied; claims maps launch IDs to its NodeClaims.
func (p *replacements) decided(s *model.Snapshot, plan model.Plan, claims map[string]string) {
	f := &following{
		pods: map[model.PodKey]*model.Pod{}, byNode: map[string]string{}, inFlight: map[string]string{},
		found: map[string]*replacementStatus{}, queues: map[int]*queue{},
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch claim := p.cluster.Claim(n.Claim); {
		case n.Deleting && isInterrupted(claim) && claim.DeletionTimestamp == nil: // a deleted one waits for no plan
			f.byNode[n.Name], f.found[n.Claim] = n.Claim, &replacementStatus{}
		case n.State == model.InFlight:
			f.inFlight[n.Name] = n.Claim
		}
	}
	if len(f.found) > 0 {
		f.follow(s, plan, claims)
		p.reopen(s, f)
	}
	found := make(map[string]replacementStatus, len(f.found))
	for claim, status := range f.found {
		found[claim] = *status
	}
	p.mu.Lock()
	p.plans = found
	p.mu.Unlock()
	for claim := range found {
		p.claims.Add(claim)
	}
}

// reopen marks the claims whose pods were placed on capacity that may have looked free only because the pods meant
// for it were just being created: a plan follows once those exist.
func (p *replacements) reopen(s *model.Snapshot, f *following) {
	pods := map[string][]model.PodKey{}
	for i := range s.Pending {
		if claim := f.byNode[s.Pending[i].From]; claim != "" {
			pods[claim] = append(pods[claim], s.Pending[i].PodKey)
		}
	}
	for claim, keys := range pods {
		if p.cluster.Overlooked(s.Now, keys) {
			f.found[claim].open = true
		}
	}
}

// launched reconciles the claims that wait for the launch of this one.
func (p *replacements) launched(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for claim, s := range p.plans {
		if slices.Contains(s.claims, name) ||
			slices.ContainsFunc(s.competing, func(q *queue) bool { return slices.Contains(q.claims, name) }) {
			p.claims.Add(claim)
		}
	}
}

// following finds where a plan places the pods of interrupted claims.
type following struct {
	byNode   map[string]string // Node → interrupted claim
	inFlight map[string]string // node of the snapshot that is not launched yet → its claim
	found    map[string]*replacementStatus
	queues   map[int]*queue              // by shape
	pods     map[model.PodKey]*model.Pod // pods that the plan has yet to answer
}

// follow fills in found. A plan that does not answer a pod, like any refused plan, is followed by another one.
func (f *following) follow(s *model.Snapshot, plan model.Plan, claims map[string]string) {
	for i := range s.Pending {
		pod := &s.Pending[i]
		if claim := f.byNode[pod.From]; claim != "" {
			f.compete(f.found[claim], pod.Shape)
		}
		if !pod.Virtual {
			f.pods[pod.PodKey] = pod
		}
	}
	for i := range plan.Launches {
		claim, applied := claims[plan.Launches[i].ID]
		for _, pod := range plan.Launches[i].Pods {
			f.add(pod, claim, applied)
		}
	}
	for _, place := range plan.Placements {
		f.add(place.Pod, f.inFlight[place.Node], true)
	}
	for i := range plan.Unplaced {
		f.add(plan.Unplaced[i].Pod, "", true)
	}
	for pod := range f.pods {
		f.add(pod, "", false)
	}
}

// compete records that pods of the shape are on the claim's Node.
func (f *following) compete(s *replacementStatus, shape int) {
	q := f.queues[shape]
	if q == nil {
		q = &queue{}
		f.queues[shape] = q
	}
	if !slices.Contains(s.competing, q) {
		s.competing = append(s.competing, q)
	}
}

// add records where a pod is placed: on a claim that is to be launched, or on a Node that need not be awaited.
func (f *following) add(key model.PodKey, claim string, applied bool) {
	pod := f.pods[key]
	if pod == nil {
		return
	}
	delete(f.pods, key)
	var claims *[]string
	var open *bool
	if s := f.found[f.byNode[pod.From]]; s != nil {
		claims, open = &s.claims, &s.open
	} else if q := f.queues[pod.Shape]; q != nil {
		claims, open = &q.claims, &q.open
	} else {
		return
	}
	*open = *open || !applied
	if claim != "" {
		*claims = append(*claims, claim)
	}
}
