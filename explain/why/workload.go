package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/reason"
)

// PodAnswer is the conclusion about one pod of a workload.
type PodAnswer struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Node    string `json:"node,omitempty"`
	Summary string `json:"summary,omitempty"` // "" if the pod was not examined: see maxAsked
	State   string `json:"state,omitempty"`

	whole *Answer
}

// maxAsked is how many pods without a node are examined, each with its own plan; maxNodes is how many nodes are
// named.
const maxAsked, maxNodes = 8, 5

// verdictOrder lists the verdicts of pods. Those that need attention come first.
var verdictOrder = []string{Unschedulable, NoAddress, NotManaged, Launching, HasRoom, Placed, Ended}

// workloadQuestion is a question about all pods of a workload.
type workloadQuestion struct {
	*question
	of Subject
}

// answer answers about all pods of a workload, and reports whether it exists. It explains the first pod with the
// worst verdict in full.
func (q *workloadQuestion) answer(ctx context.Context) (bool, error) {
	of := q.of
	pods := slices.DeleteFunc(q.c.State.Pods(of.Namespace), func(p *corev1.Pod) bool { return !belongs(p, of) })
	if len(pods) == 0 {
		return q.withoutPods(ctx)
	}
	asked := 0
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			asked++
		}
		q.a.Pods = append(q.a.Pods, q.ofPod(ctx, pod, asked <= maxAsked))
	}
	worst := q.count()
	q.onNodes()
	q.notCreated(ctx)
	q.groups(worst)
	return true, nil
}

// count counts the pods by verdict, concludes from that, and returns the worst verdict.
func (q *workloadQuestion) count() string {
	counts := map[string]int{}
	for i := range q.a.Pods {
		counts[q.a.Pods[i].Verdict]++
	}
	var parts []string
	worst := ""
	for _, v := range append(verdictOrder, "") {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], verdictText(v)))
			worst = cmp.Or(worst, v)
		}
	}
	q.conclude(reason.Count(len(q.a.Pods), "pod"), worst, "%s", strings.Join(parts, ", "))
	return worst
}

// verdictText completes "N pods …" for a verdict.
func verdictText(verdict string) string {
	return map[string]string{
		Unschedulable: "that no node can take", NoAddress: "on nodes that have no IP address for them",
		NotManaged: "that Nodeless does not decide about",
		Launching:  "for which a node is, or has to be, launched", HasRoom: "for which a node has room",
		Placed: "on nodes", Ended: "that have ended",
		"": "more without a node, not examined one by one",
	}[verdict]
}

// ofPod explains one pod. If whole is false, it only lists a pod without a node.
func (q *workloadQuestion) ofPod(ctx context.Context, pod *corev1.Pod, whole bool) PodAnswer {
	out := PodAnswer{Name: pod.Name, Node: pod.Spec.NodeName}
	if pod.Spec.NodeName == "" && !whole {
		return out
	}
	of := Subject{Kind: PodKind, Namespace: pod.Namespace, Name: pod.Name}
	one := newQuestion(q.c, q.s, q.policy, of)
	one.aboutPod(ctx, of)
	out.Verdict, out.Summary, out.State, out.whole = one.a.Verdict, one.a.Summary, one.a.State, one.a
	return out
}

// onNodes says where the placed pods run.
func (q *workloadQuestion) onNodes() {
	on := map[string]int{}
	var nodes []string
	for i := range q.a.Pods {
		p := &q.a.Pods[i]
		if p.Verdict != Placed {
			continue
		}
		if on[p.Node] == 0 {
			nodes = append(nodes, p.Node)
		}
		on[p.Node]++
	}
	for i, name := range nodes {
		nodes[i] = fmt.Sprintf("%s (%d)", name, on[name])
	}
	if len(nodes) > 0 {
		q.sayf("placed", "on %s: %s", reason.Count(len(nodes), "node"), reason.Some(nodes, maxNodes))
	}
}

// groups summarizes equal answers, and repeats the first one with the worst verdict in full.
func (q *workloadQuestion) groups(worst string) {
	var summaries []string
	first, count := map[string]*PodAnswer{}, map[string]int{}
	for i := range q.a.Pods {
		p := &q.a.Pods[i]
		if p.whole == nil || p.Verdict == Placed {
			continue
		}
		if key := p.Verdict + p.Summary; count[key] == 0 {
			summaries, first[key] = append(summaries, key), p
		}
		count[p.Verdict+p.Summary]++
	}
	var shown *PodAnswer
	for _, key := range summaries {
		p := first[key]
		q.sayf("pods", "%d such as %s, %s: %s", count[key], p.Name, p.State, p.Summary)
		if shown == nil && p.Verdict == worst {
			shown = p
		}
	}
	if shown == nil {
		return
	}
	for _, f := range shown.whole.Facts {
		if f.Label != "owner" {
			q.say(f.Label, f.Text)
		}
	}
	q.a.Reason, q.a.Change, q.a.Changes, q.a.Launch = shown.whole.Reason, shown.whole.Change, shown.whole.Changes,
		shown.whole.Launch
}

// belongs reports whether a workload owns the pod, directly or through another object.
func belongs(pod *corev1.Pod, of Subject) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	kind := workloads[of.Kind].kind
	switch kind {
	case "Deployment":
		hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		return hash != "" && owner.Kind == "ReplicaSet" && owner.Name == of.Name+"-"+hash
	case "CronJob":
		return translate.ReadPod(pod).Job == of.Namespace+"/"+of.Name
	}
	return owner.Kind == kind && owner.Name == of.Name
}

// withoutPods answers about a workload without pods, and reports whether it exists.
func (q *workloadQuestion) withoutPods(ctx context.Context) (bool, error) {
	of := q.of
	object := workloadObject(of.Kind)
	err := q.c.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s has no pods; whether it exists is unknown: %w", of, err)
	}
	q.conclude("0 pods", NotManaged, "it has no pods: it wants none, or its events say why they could not be created")
	return true, nil
}

// workloadObject returns an empty object of the kind.
func workloadObject(kind string) client.Object {
	return map[string]client.Object{
		"deployment": &appsv1.Deployment{}, "replicaset": &appsv1.ReplicaSet{}, "statefulset": &appsv1.StatefulSet{},
		"daemonset": &appsv1.DaemonSet{}, "job": &batchv1.Job{}, "cronjob": &batchv1.CronJob{},
		"replicationcontroller": &corev1.ReplicationController{},
	}[kind]
}

// notCreated says how many pods the workload's controller cannot create, and why: they do not wait for nodes. It
// omits what it cannot read.
func (q *workloadQuestion) notCreated(ctx context.Context) {
	object := workloadObject(q.of.Kind)
	if q.c.Get(ctx, client.ObjectKey{Namespace: q.of.Namespace, Name: q.of.Name}, object) != nil {
		return
	}
	var wants *int32
	var have int32
	why := ""
	switch o := object.(type) {
	case *appsv1.Deployment:
		wants, have = o.Spec.Replicas, o.Status.Replicas
		for i := range o.Status.Conditions {
			if c := &o.Status.Conditions[i]; c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				why = c.Message
			}
		}
	case *appsv1.ReplicaSet:
		wants, have = o.Spec.Replicas, o.Status.Replicas
		for i := range o.Status.Conditions {
			if c := &o.Status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				why = c.Message
			}
		}
	}
	if why == "" || wants == nil || have >= *wants {
		return
	}
	q.sayf("not created", "%d of %s, and no node waits for them: %s", *wants-have, reason.Count(int(*wants), "pod"), why)
}
