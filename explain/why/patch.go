package why

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/printable"
)

// Patch is a change as a JSON patch (RFC 6902) of one object.
type Patch struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Ops       []Op   `json:"patch"`
	// Anew means that the API does not allow this change to an existing object: it must be deleted and created again.
	Anew bool `json:"anew,omitempty"`
	// DeletePod is a pod to delete afterwards: its StatefulSet does not replace it by itself.
	DeletePod string `json:"deletePod,omitempty"`
}

// Op is one operation of a JSON patch.
type Op struct {
	Op    string `json:"op"` // add, replace, remove or test
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Command returns the shell command that applies the patch.
func (p *Patch) Command() string {
	text, err := json.Marshal(p.Ops)
	if err != nil {
		return "" // cannot happen: strings, numbers and lists of them always marshal
	}
	patch := "--type json -p " + quoted(string(printable.JSON(text)))
	kubectl := "kubectl"
	if p.Namespace != "" {
		kubectl += " -n " + p.Namespace
	}
	if p.Anew {
		return fmt.Sprintf("%s get %s %s -o json | kubectl patch --local -f - %s -o json | kubectl replace --force -f -",
			kubectl, p.Kind, p.Name, patch)
	}
	command := fmt.Sprintf("%s patch %s %s %s", kubectl, p.Kind, p.Name, patch)
	if p.DeletePod != "" {
		command += fmt.Sprintf(" && %s delete pod %s", kubectl, p.DeletePod)
	}
	return command
}

// quoted quotes a text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// patchOf returns the change as a patch of the pod, of its template, or of the pool, nil if it is not an edit of a
// single readable object; and what to do then for the pod to be made from its template.
func (q *podQuestion) patchOf(ctx context.Context, c *model.Change) (patch *Patch, then string) {
	pod := q.pod
	if ops, ofPool := poolOps(q.c.State.NodePool(c.Pool), c); ofPool {
		if len(ops) == 0 {
			return nil, ""
		}
		return &Patch{Kind: "nodepool", Name: c.Pool, Ops: ops}, ""
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		ops := podOps(&pod.Spec, "/spec", c)
		if len(ops) == 0 {
			return nil, ""
		}
		// The API allows adding tolerations to a pending pod, but none of the other changes.
		return &Patch{Kind: "pod", Namespace: pod.Namespace, Name: pod.Name, Ops: ops, Anew: c.Rule != model.RuleTaint}, ""
	}
	return patchOfWorkload(pod, q.workload(ctx, owner), c)
}

// workload returns the workload whose template the pod is made from, nil if it cannot be read or changed.
func (q *podQuestion) workload(ctx context.Context, owner *metav1.OwnerReference) client.Object {
	key := client.ObjectKey{Namespace: q.pod.Namespace, Name: owner.Name}
	var object client.Object
	switch owner.Kind {
	case "StatefulSet":
		object = &appsv1.StatefulSet{}
	case "ReplicaSet":
		hash := q.pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		name, cut := strings.CutSuffix(owner.Name, "-"+hash)
		if !cut || hash == "" {
			return nil
		}
		key.Name = name
		object = &appsv1.Deployment{}
	default:
		return nil
	}
	if err := q.c.Get(ctx, key, object); err != nil {
		return nil
	}
	return object
}

// patchOfWorkload returns the change as a patch of the workload's template, nil if there is none that would help the
// pod; and what to do then.
func patchOfWorkload(pod *corev1.Pod, workload client.Object, c *model.Change) (patch *Patch, then string) {
	const template = "/spec/template/spec"
	p := &Patch{Namespace: pod.Namespace}
	switch o := workload.(type) {
	case *appsv1.Deployment:
		p.Kind, p.Name, p.Ops = "deployment", o.Name, podOps(&o.Spec.Template.Spec, template, c)
	case *appsv1.StatefulSet:
		p.Kind, p.Name = "statefulset", o.Name
		var lower bool
		if p.DeletePod, lower, then = replacing(o, pod); !lower {
			p.Ops = podOps(&o.Spec.Template.Spec, template, c)
		}
	}
	if len(p.Ops) == 0 {
		return nil, then
	}
	return p, then
}

// poolOps returns the operations that change a pool. ofPool reports whether the change is about a pool.
func poolOps(np *karpv1.NodePool, c *model.Change) (ops []Op, ofPool bool) {
	key, requirement := strings.CutPrefix(c.Object, "requirement ")
	switch {
	case c.Rule == model.RuleLimit && np != nil:
		name := strings.TrimPrefix(c.Object, "limit ")
		return []Op{{"replace", "/spec/limits/" + pointer(name), c.To}}, true
	case c.Rule == model.RuleMinValues && np != nil:
		n, err := strconv.Atoi(c.To)
		for i, r := range np.Spec.Template.Spec.Requirements {
			if at := requirementPath(i); r.Key == c.Object && r.MinValues != nil && err == nil {
				return []Op{{"test", at + "/key", r.Key}, {"replace", at + "/minValues", n}}, true
			}
		}
		return nil, true
	case c.Rule == model.RuleRequirement && requirement:
		if np == nil {
			return nil, true
		}
		return widened(np.Spec.Template.Spec.Requirements, key, c.To), true
	}
	return nil, c.Rule == model.RuleLimit || c.Rule == model.RuleMinValues
}

func requirementPath(i int) string { return "/spec/template/spec/requirements/" + strconv.Itoa(i) }

// widened returns the operations that make the only requirement on the key allow one more value, and no fewer; none
// for bounds, and for requirements that do not exclude the value.
func widened(rs []karpv1.NodeSelectorRequirementWithMinValues, key, value string) []Op {
	at := slices.IndexFunc(rs, func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.Key == key })
	if at < 0 || slices.ContainsFunc(rs[at+1:],
		func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.Key == key }) {
		return nil
	}
	path := requirementPath(at)
	same := Op{"test", path + "/key", key}
	excluded := slices.Index(rs[at].Values, value)
	switch operator := rs[at].Operator; {
	case operator == corev1.NodeSelectorOpIn:
		return []Op{same, {"add", path + "/values/-", value}}
	case operator != corev1.NodeSelectorOpNotIn || excluded < 0:
		return nil
	case len(rs[at].Values) > 1:
		is := path + "/values/" + strconv.Itoa(excluded)
		return []Op{same, {"test", is, value}, {"remove", is, nil}}
	case rs[at].MinValues == nil:
		return []Op{same, {"test", path + "/values/0", value}, {"remove", path, nil}}
	}
	return nil
}

// pointer escapes a word of a JSON pointer (RFC 6901).
func pointer(word string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(word)
}
