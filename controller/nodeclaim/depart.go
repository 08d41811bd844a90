package nodeclaim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// A machine that the cloud takes away is drained when the machines for its pods are launched. Until then its pods run on:
// it has two minutes on EC2. See docs/adr/0007-replacements-before-an-interrupted-machine-is-drained.md.
const (
	// departNotice is how long before the end of a machine EC2 warns, the time from the warning to us taken off.
	departNotice = 105 * time.Second
	// departAtLast is how long the launch of the next machines is waited for at most; less if the pods need more time to end.
	departAtLast = time.Minute
	// departLook is how often it is looked whether they are launched; as a rule that is an event.
	departLook = time.Second
)

// prospect is where the last plan puts the pods of a machine that is interrupted.
type prospect struct {
	claims []string // that are to be launched before the machine is drained
	ahead  []*line  // of pods that could take their places
	open   bool     // not all of the plan was carried out, or it was made too early: another one follows
}

// line is where a plan puts the pods of one shape that are without a place, or driven off theirs, already.
type line struct {
	claims []string // that are to be launched
	open   bool     // not all of it was carried out
}

func isInterrupted(claim *karpv1.NodeClaim) bool {
	_, _, ok := translate.Interrupted(claim)
	return ok
}

// noteInterrupted writes on the claim that its machine is taken away. From there on all follows from the claim: the notice
// may be taken off its queue, and the process may end.
func (l *Lifecycle) noteInterrupted(ctx context.Context, claim *karpv1.NodeClaim, kind cloud.InterruptionKind) error {
	if err := l.annotate(ctx, claim, translate.AnnotationInterrupted, translate.Interruption(string(kind), l.now())); err != nil {
		return err
	}
	l.o.Log.Info("machine is interrupted", "nodeclaim", claim.Name, "machine", machineID(claim.Status.ProviderID), "why", kind)
	l.claims.Add(claim.Name)
	return nil
}

// depart ends a claim whose machine is taken away, once its pods' next machines are on their way. New pods are kept off it
// at once.
func (l *Lifecycle) depart(ctx context.Context, t *turn) (bool, error) {
	kind, since, ok := translate.Interrupted(t.claim)
	if !ok {
		return true, nil
	}
	nodes, err := l.nodesOf(ctx, t.claim.Status.ProviderID)
	if err != nil {
		return false, err
	}
	for _, node := range nodes {
		before := node.DeepCopy()
		if hasTaint(node, karpv1.DisruptedNoScheduleTaint) {
			continue
		}
		node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		if err := l.writeNode(ctx, before, node); err != nil {
			return false, err
		}
	}
	if left := since.Add(l.patience(nodes)).Sub(l.now()); left > 0 && !l.prepared(t.claim.Name) {
		t.in(min(left, departLook))
		return false, nil
	}
	return false, l.endInterrupted(ctx, t.claim, cloud.InterruptionKind(kind))
}

// patience is how long the next machines for the pods of these Nodes are waited for: so long that each pod can still end in
// its own time.
func (l *Lifecycle) patience(nodes []*corev1.Node) time.Duration {
	if len(nodes) == 0 {
		return 0
	}
	wait := departAtLast
	for _, node := range nodes {
		for _, p := range l.o.World.PodsOnNode(node.Name) {
			if s := p.Spec.TerminationGracePeriodSeconds; s != nil && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				wait = min(wait, departNotice-time.Duration(*s)*time.Second)
			}
		}
	}
	return wait
}

// prepared reports whether a plan knew that the machine goes, and the machines it has for its pods are launched, as well as those for pods like
// them that are without a place already: kube-scheduler does not ask who a place was meant for.
func (l *Lifecycle) prepared(claim string) bool {
	l.mu.Lock()
	p, planned := l.prospects[claim]
	l.mu.Unlock()
	if !planned || p.open || !l.areLaunched(p.claims) {
		return false
	}
	for _, q := range p.ahead {
		if q.open || !l.areLaunched(q.claims) {
			return false
		}
	}
	return true
}

// areLaunched reports whether all the claims have their machines. One that failed is followed by another plan.
func (l *Lifecycle) areLaunched(claims []string) bool {
	for _, name := range claims {
		next := l.o.World.Claim(name)
		if next == nil || next.DeletionTimestamp != nil || next.Status.ProviderID == "" {
			return false
		}
	}
	return true
}

// Decided hears of a plan for the pods that was carried out: the claims that its launches became, by launch ID.
func (l *Lifecycle) Decided(s *model.Snapshot, p model.Plan, claims map[string]string) {
	found := map[string]prospect{}
	byNode := map[string]string{} // Node → claim of a machine that is interrupted
	flying := map[string]string{} // machine in the snapshot that is not launched → claim
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch claim := l.o.World.Claim(n.Claim); {
		case n.Deleting && isInterrupted(claim) && claim.DeletionTimestamp == nil: // one that goes already waits for no plan
			byNode[n.Name], found[n.Claim] = n.Claim, prospect{}
		case n.State == model.InFlight:
			flying[n.Name] = n.Claim
		}
	}
	if len(found) > 0 {
		follow(s, p, claims, byNode, flying, found)
		l.reopen(s, byNode, found)
	}
	l.mu.Lock()
	l.prospects = found
	l.mu.Unlock()
	for claim := range found {
		l.claims.Add(claim)
	}
}

// reopen notes whose places the plan may have found to be free only because the pods that they are meant for were being made: a plan follows when
// those come.
func (l *Lifecycle) reopen(s *model.Snapshot, byNode map[string]string, found map[string]prospect) {
	pods := map[string][]model.PodKey{}
	for i := range s.Pending {
		if claim := byNode[s.Pending[i].From]; claim != "" {
			pods[claim] = append(pods[claim], s.Pending[i].PodKey)
		}
	}
	for claim, keys := range pods {
		if l.o.World.Overlooked(s.Now, keys) {
			p := found[claim]
			p.open = true
			found[claim] = p
		}
	}
}

// wakeDeparting has the claims looked at that wait for the launch of this one.
func (l *Lifecycle) wakeDeparting(launched string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for claim, p := range l.prospects {
		if slices.Contains(p.claims, launched) || slices.ContainsFunc(p.ahead, func(q *line) bool { return slices.Contains(q.claims, launched) }) {
			l.claims.Add(claim)
		}
	}
}

// follow completes found with the machines that the pods of interrupted machines get. A plan that does not answer one of them,
// as none does that was refused, is followed by another.
func follow(s *model.Snapshot, p model.Plan, claims, byNode, flying map[string]string, found map[string]prospect) {
	f := following{pods: make(map[model.PodKey]*model.Pod, len(s.Pending)), byNode: byNode, found: found, lines: map[int]*line{}}
	for i := range s.Pending {
		pod := &s.Pending[i]
		if claim := byNode[pod.From]; claim != "" {
			f.behind(claim, pod.Shape)
		}
		if !pod.Virtual {
			f.pods[pod.PodKey] = pod
		}
	}
	for i := range p.Launches {
		claim, carriedOut := claims[p.Launches[i].ID]
		for _, pod := range p.Launches[i].Pods {
			f.add(pod, claim, carriedOut)
		}
	}
	for _, place := range p.Placements {
		f.add(place.Pod, flying[place.Node], true)
	}
	for i := range p.Unplaced {
		f.add(p.Unplaced[i].Pod, "", true)
	}
	for pod := range f.pods {
		f.add(pod, "", false)
	}
}

// following is how far follow has come.
type following struct {
	pods   map[model.PodKey]*model.Pod // that the plan has to answer yet
	byNode map[string]string
	found  map[string]prospect
	lines  map[int]*line // by shape
}

// behind notes that pods of the shape are on the claim's machine.
func (f *following) behind(claim string, shape int) {
	if f.lines[shape] == nil {
		f.lines[shape] = &line{}
	}
	p := f.found[claim]
	if q := f.lines[shape]; !slices.Contains(p.ahead, q) {
		p.ahead = append(p.ahead, q)
	}
	f.found[claim] = p
}

// add notes where the pod has its place: on a machine of the claim that is to be launched, or on none that is to be waited for.
func (f *following) add(key model.PodKey, claim string, carriedOut bool) {
	pod := f.pods[key]
	if pod == nil {
		return
	}
	delete(f.pods, key)
	old, departing := f.byNode[pod.From]
	if !departing {
		if q := f.lines[pod.Shape]; q != nil {
			q.open = q.open || !carriedOut
			if claim != "" {
				q.claims = append(q.claims, claim)
			}
		}
		return
	}
	p := f.found[old]
	p.open = p.open || !carriedOut
	if claim != "" {
		p.claims = append(p.claims, claim)
	}
	f.found[old] = p
}
