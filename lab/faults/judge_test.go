package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/region"
)

// promise is what the pool and the budgets of the story allow.
type promise struct {
	cpuLimit   int
	disrupting int            // nodes of the pool that may be disrupted at once
	available  map[string]int // pods of an app that stay available, by the app's name
}

// judge watches every write to the API and every change of an instance, and records violations.
type judge struct {
	promise promise
	say     func(format string, args ...any)

	mu       sync.Mutex
	broken   []string
	pods     map[string]*unstructured.Unstructured // by namespace/name
	claims   map[string]*unstructured.Unstructured
	running  map[string]region.Instance // by ID
	launched map[string]string          // instances by the claim's UID
	excused  map[string]bool            // instances that something else than the controller ends
	deleting map[string]bool            // claims that the controller disrupts
	counts   map[string]int
}

func newJudge(p promise, say func(string, ...any)) *judge {
	return &judge{
		promise: p, say: say, pods: map[string]*unstructured.Unstructured{}, claims: map[string]*unstructured.Unstructured{},
		running: map[string]region.Instance{}, launched: map[string]string{}, excused: map[string]bool{},
		deleting: map[string]bool{},
		counts:   map[string]int{},
	}
}

func (j *judge) breach(format string, args ...any) {
	text := time.Now().Format("04:05.000 ") + fmt.Sprintf(format, args...)
	j.broken = append(j.broken, text)
	j.say("BROKEN: %s", text)
}

// verdict returns the violations so far.
func (j *judge) verdict() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.broken)
}

// count returns how often something happened.
func (j *judge) count(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[what]
}

// written handles a write to the API.
func (j *judge) written(c apisim.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch c.Resource {
	case podsGVR:
		j.pod(c)
	case claimsGVR:
		j.claim(c)
	}
}

func (j *judge) pod(c apisim.Change) {
	key := func(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }
	if c.Is == nil {
		delete(j.pods, key(c.Was))
	} else {
		j.pods[key(c.Is)] = c.Is
	}
	if c.By == agent && c.Is != nil && c.Was != nil && nominee(c.Is) != "" && nominee(c.Is) != nominee(c.Was) {
		j.counts["nominations"]++
	}
	ends := c.Is == nil || c.Was != nil && c.Was.GetDeletionTimestamp() == nil && c.Is.GetDeletionTimestamp() != nil
	if !ends || c.By != agent || c.Was == nil {
		return
	}
	j.counts["evictions"]++
	j.say("pod %s is sent away", key(c.Was))
	if !evicted(c.Was) {
		j.breach("pod %s was deleted, not evicted", key(c.Was))
	}
	app := c.Was.GetLabels()["app"]
	if least, promised := j.promise.available[app]; promised {
		if n := j.available(app); n < least {
			j.breach("the eviction of pod %s leaves %d of app %s, its PodDisruptionBudget says %d", key(c.Was), n, app, least)
		}
	}
}

func nominee(pod *unstructured.Unstructured) string {
	node, _, _ := unstructured.NestedString(pod.Object, "status", "nominatedNodeName")
	return node
}

// available counts an app's pods that are ready and not being deleted.
func (j *judge) available(app string) int {
	n := 0
	for _, p := range j.pods {
		if p.GetDeletionTimestamp() == nil && labels.Set(p.GetLabels()).Get("app") == app && condition(p, "Ready") == "True" {
			n++
		}
	}
	return n
}

func condition(o *unstructured.Unstructured, kind string) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, x := range all {
		if c, ok := x.(map[string]any); ok && c["type"] == kind {
			text, _ := c["status"].(string)
			return text
		}
	}
	return ""
}

func evicted(pod *unstructured.Unstructured) bool {
	return condition(pod, string(corev1.DisruptionTarget)) == "True"
}

func (j *judge) claim(c apisim.Change) {
	switch {
	case c.Was == nil:
		j.claims[c.Is.GetName()] = c.Is
		j.counts["claims"]++
		j.say("claim %s is created by %s", c.Is.GetName(), c.By)
	case c.Is == nil:
		delete(j.claims, c.Was.GetName())
		delete(j.deleting, c.Was.GetName())
		j.say("claim %s is gone", c.Was.GetName())
		for _, i := range j.running {
			if i.Tags[tagClaim] == c.Was.GetName() && i.Tags[tagUID] == string(c.Was.GetUID()) {
				j.breach("claim %s is gone, its instance %s runs", c.Was.GetName(), i.ID)
			}
		}
	default:
		j.claims[c.Is.GetName()] = c.Is
		if condition(c.Is, karpv1.ConditionTypeInstanceTerminating) == "True" { // no longer counts towards budgets
			delete(j.deleting, c.Is.GetName())
		}
		if c.Was.GetDeletionTimestamp() != nil || c.Is.GetDeletionTimestamp() == nil {
			return
		}
		why := c.Is.GetAnnotations()[translate.AnnotationDisruption]
		j.say("claim %s is asked to go by %s: %s", c.Is.GetName(), c.By, why)
		if c.By != agent || why == "" {
			return
		}
		j.counts["disrupted "+why]++
		j.deleting[c.Is.GetName()] = true
		if n := len(j.deleting); n > j.promise.disrupting {
			j.breach("%d machines are disrupted at once, the budget says %d", n, j.promise.disrupting)
		}
	}
}

// Keys of an instance's tags.
const (
	tagClaim = "karpenter.sh/nodeclaim"
	tagUID   = "nodeless.sh/nodeclaim-uid"
)

// watch handles instance events until ctx is done.
func (j *judge) watch(ctx context.Context, r *region.Region) {
	for e := range r.Watch(ctx) {
		j.mu.Lock()
		switch e.Kind {
		case region.EventCreated:
			j.created(e.Instance)
		case region.EventShuttingDown:
			j.ended(e.Instance)
		}
		j.mu.Unlock()
	}
}

func (j *judge) created(i region.Instance) {
	j.counts["instances"]++
	claim, uid := i.Tags[tagClaim], i.Tags[tagUID]
	j.say("instance %s is launched for claim %s %s", i.ID, claim, uid)
	if claim == "" || uid == "" {
		j.breach("instance %s has no claim on its tags", i.ID)
	}
	if other := j.launched[uid]; other != "" && other != i.ID {
		j.breach("claim %s has two launches: %s and %s", claim, other, i.ID)
	}
	j.launched[uid] = i.ID
	for _, x := range j.running {
		if x.Tags[tagClaim] == claim {
			j.breach("claim %s has two instances: %s and %s", claim, x.ID, i.ID)
		}
	}
	j.running[i.ID] = i
	cpus := 0
	for _, x := range j.running {
		cpus += vcpus(x.Type)
	}
	if cpus > j.promise.cpuLimit {
		j.breach("instances have %d CPUs, the NodePool's limit is %d", cpus, j.promise.cpuLimit)
	}
}

func (j *judge) ended(i region.Instance) {
	delete(j.running, i.ID)
	j.say("instance %s ends", i.ID)
	if j.excused[i.ID] || !i.InterruptAt.IsZero() {
		return
	}
	for _, p := range j.pods {
		node, _, _ := unstructured.NestedString(p.Object, "spec", "nodeName")
		phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
		if node == i.PrivateDNS && phase == string(corev1.PodRunning) && p.GetDeletionTimestamp() == nil {
			j.breach("instance %s was terminated while pod %s ran on it", i.ID, p.GetName())
		}
	}
}

// excuse records that something else than the controller ends an instance.
func (j *judge) excuse(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.excused[id] = true
}

func vcpus(instanceType string) int {
	for _, t := range machines.Types {
		if t.Name == instanceType {
			return t.VCPU
		}
	}
	return 0
}
