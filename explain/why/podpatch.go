package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// podOps returns the JSON patch operations that change a pod's specification; root is its path in the object.
func podOps(spec *corev1.PodSpec, root string, c *model.Change) []Op {
	switch c.Rule {
	case model.RuleTaint:
		return tolerate(spec, root, c.Object)
	case model.RuleRequirement:
		return relabel(spec, root, c.Object, c.To)
	case model.RuleResource:
		return askLess(spec, root, corev1.ResourceName(c.Object), c.To)
	case model.RuleSpread:
		return spreadAnyway(spec, root, c.Object)
	case model.RuleAffinity, model.RuleAntiAffinity:
		return prefer(spec, root, c)
	case model.RuleHostPort:
		return closePort(spec, root, c.From)
	}
	return nil
}

func tolerate(spec *corev1.PodSpec, root, taint string) []Op {
	text, effect, _ := strings.Cut(taint, ":")
	key, value, valued := strings.Cut(text, "=")
	t := corev1.Toleration{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	if !valued {
		t.Operator = corev1.TolerationOpExists
	}
	if len(spec.Tolerations) == 0 {
		return []Op{{"add", root + "/tolerations", []corev1.Toleration{t}}}
	}
	return []Op{{"add", root + "/tolerations/-", t}}
}

// relabel allows a value for a label, or removes the requirement on the label, wherever the pod has one.
func relabel(spec *corev1.PodSpec, root, key, value string) (ops []Op) {
	for _, k := range sortedKeys(spec.NodeSelector) {
		switch path := root + "/nodeSelector/" + pointer(k); {
		case translate.LabelKey(k) != key:
		case value == "":
			ops = append(ops, Op{Op: "remove", Path: path})
		default:
			ops = append(ops, Op{"replace", path, value})
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ops
	}
	required := root + "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
	for t, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		asks := slices.IndexFunc(term.MatchExpressions,
			func(e corev1.NodeSelectorRequirement) bool { return translate.LabelKey(e.Key) == key })
		if asks < 0 {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(term.MatchExpressions),
			func(e corev1.NodeSelectorRequirement) bool { return translate.LabelKey(e.Key) == key })
		if value != "" {
			kept = append(kept, corev1.NodeSelectorRequirement{
				Key:      term.MatchExpressions[asks].Key,
				Operator: corev1.NodeSelectorOpIn, Values: []string{value},
			})
		}
		if len(kept)+len(term.MatchFields) == 0 { // an empty term matches no node
			return append(ops, Op{Op: "remove", Path: required})
		}
		ops = append(ops, Op{"replace", fmt.Sprintf("%s/nodeSelectorTerms/%d/matchExpressions", required, t), kept})
	}
	return ops
}

func sortedKeys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// askLess lowers the largest request among the containers until the pod requests no more than to.
func askLess(spec *corev1.PodSpec, root string, name corev1.ResourceName, to string) []Op {
	most, err := resource.ParseQuantity(to)
	if err != nil || spec.Resources != nil {
		return nil
	}
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	largest := -1
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if asked := c.Resources.Requests[name]; largest < 0 ||
			asked.Cmp(pod.Spec.Containers[largest].Resources.Requests[name]) > 0 {
			largest = i
		}
	}
	if largest < 0 {
		return nil
	}
	asked, ok := pod.Spec.Containers[largest].Resources.Requests[name]
	all := func() resource.Quantity {
		return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})[name]
	}
	over := all()
	if over.Sub(most); !ok || over.Sign() <= 0 || over.Cmp(asked) >= 0 {
		return nil
	}
	asked.Sub(over)
	pod.Spec.Containers[largest].Resources.Requests[name] = asked
	if now := all(); now.Cmp(most) > 0 { // an init container requests more
		return nil
	}
	path := fmt.Sprintf("%s/containers/%d/resources/", root, largest)
	ops := []Op{{"replace", path + "requests/" + pointer(string(name)), asked.String()}}
	if _, limited := pod.Spec.Containers[largest].Resources.Limits[name]; limited && name != corev1.ResourceCPU &&
		name != corev1.ResourceMemory {
		ops = append(ops, Op{"replace", path + "limits/" + pointer(string(name)), asked.String()}) // must equal the request
	}
	return ops
}

// spreadAnyway turns the spread constraints on a topology into preferences. Only required ones may have minDomains.
func spreadAnyway(spec *corev1.PodSpec, root, topology string) (ops []Op) {
	for i, s := range spec.TopologySpreadConstraints {
		if s.WhenUnsatisfiable != corev1.DoNotSchedule || translate.LabelKey(s.TopologyKey) != topology {
			continue
		}
		path := fmt.Sprintf("%s/topologySpreadConstraints/%d/", root, i)
		ops = append(ops, Op{"replace", path + "whenUnsatisfiable", string(corev1.ScheduleAnyway)})
		if s.MinDomains != nil {
			ops = append(ops, Op{Op: "remove", Path: path + "minDomains"})
		}
	}
	return ops
}

// prefer turns the required terms on a topology into preferred ones.
func prefer(spec *corev1.PodSpec, root string, c *model.Change) []Op {
	if spec.Affinity == nil {
		return nil
	}
	name, required, preferred := "podAffinity", []corev1.PodAffinityTerm(nil), []corev1.WeightedPodAffinityTerm(nil)
	switch a := spec.Affinity; {
	case c.Rule == model.RuleAffinity && a.PodAffinity != nil:
		required, preferred = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	case c.Rule == model.RuleAntiAffinity && a.PodAntiAffinity != nil:
		name = "podAntiAffinity"
		required, preferred = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	var left []corev1.PodAffinityTerm
	moved := slices.Clone(preferred)
	for _, t := range required {
		if translate.LabelKey(t.TopologyKey) != c.Object {
			left = append(left, t)
			continue
		}
		moved = append(moved, corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: t})
	}
	if len(left) == len(required) {
		return nil
	}
	path := root + "/affinity/" + name + "/"
	rest := Op{Op: "remove", Path: path + "requiredDuringSchedulingIgnoredDuringExecution"}
	if len(left) > 0 {
		rest.Op, rest.Value = "replace", left
	}
	return []Op{rest, {"add", path + "preferredDuringSchedulingIgnoredDuringExecution", moved}}
}

// closePort removes a host port. On the host network every port is one, so none can be removed.
func closePort(spec *corev1.PodSpec, root, named string) (ops []Op) {
	if spec.HostNetwork {
		return nil
	}
	for i := range spec.Containers {
		for k, p := range spec.Containers[i].Ports {
			protocol := cmp.Or(string(p.Protocol), string(corev1.ProtocolTCP))
			if port := (model.HostPort{IP: cmp.Or(p.HostIP, "0.0.0.0"), Protocol: protocol, Port: p.HostPort}); p.HostPort > 0 &&
				port.String() == named {
				ops = append(ops, Op{Op: "remove", Path: fmt.Sprintf("%s/containers/%d/ports/%d/hostPort", root, i, k)})
			}
		}
	}
	return ops
}
