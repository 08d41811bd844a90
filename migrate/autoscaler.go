package migrate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// autoscaler holds Cluster Autoscaler's settings for idle nodes. The defaults are those of its FAQ.
type autoscaler struct {
	policy, after string // consolidationPolicy and consolidateAfter
}

const utilizationThreshold = "scale-down-utilization-threshold"

// read applies settings. flags maps their fields to flags.
func (a *autoscaler) read(f *fields, flags map[string]string) {
	for _, field := range slices.Sorted(maps.Keys(flags)) {
		a.set(f, field, flags[field], text(f.take(field)))
	}
}

func (a *autoscaler) set(f *fields, field, flag, value string) {
	switch {
	case value == "":
	case flag == "scale-down-enabled" && value == "false":
		a.policy, a.after = "WhenEmpty", "Never"
		f.note(Mapped, field, "spec.disruption", "")
	case flag == "scale-down-unneeded-time" && a.after != "Never":
		a.after = value
		f.note(Mapped, field, "spec.disruption.consolidateAfter", "")
	case flag == utilizationThreshold && strings.Trim(value, "0.") == "":
		a.policy = "WhenEmpty"
		f.note(Mapped, field, "spec.disruption.consolidationPolicy", "")
	case flag == utilizationThreshold:
		f.note(Approximated, field, "spec.disruption.consolidationPolicy",
			"a node is removed or replaced when that saves money, whatever its utilization")
	}
}

// disruption returns the spec.disruption that does what Cluster Autoscaler did with idle nodes, if it is among the
// manifests. budget limits how many nodes a change replaces at once.
func (a *autoscaler) disruption(budget string) map[string]any {
	out := map[string]any{"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
	if a != nil {
		out["consolidationPolicy"], out["consolidateAfter"] = a.policy, a.after
	}
	others := map[string]any{"nodes": "10%"}
	out["budgets"] = []any{others}
	if budget != "" {
		others["reasons"] = []any{"Empty", "Underutilized"}
		out["budgets"] = []any{others, map[string]any{"nodes": budget, "reasons": []any{"Drifted"}}}
	}
	return out
}

// autoscalerLabels are labels of Cluster Autoscaler's pods in its own manifests, its Helm chart and kops.
var autoscalerLabels = []string{"app", "k8s-app", "app.kubernetes.io/name"}

// clusterAutoscaler reads a Deployment, and reports whether it is Cluster Autoscaler's, judging by its labels, image
// or command.
func (m *migration) clusterAutoscaler(d *document) bool {
	template := child(child(d.object, "spec"), "template")
	pod, labels := child(template, "spec"), child(child(template, "metadata"), "labels")
	named := slices.ContainsFunc(autoscalerLabels, func(key string) bool {
		return strings.HasSuffix(text(labels[key]), "cluster-autoscaler")
	})
	for _, v := range listOf(pod["containers"]) {
		c, _ := v.(map[string]any)
		words := append(texts(listOf(c["command"])), texts(listOf(c["args"]))...)
		if !named && !strings.Contains(text(c["image"])+" "+strings.Join(words, " "), "cluster-autoscaler") {
			continue
		}
		f := d.fields(&m.notes)
		m.autoscaler = &autoscaler{policy: "WhenEmptyOrUnderutilized", after: "10m"}
		for _, word := range words {
			if flag, value, ok := strings.Cut(strings.TrimLeft(word, "-"), "="); ok {
				m.autoscaler.set(f, "--"+flag, flag, value)
			}
		}
		f.note(Warning, "", "", "two autoscalers would launch nodes for the same pods: kubectl scale deployment "+d.name()+
			" --replicas=0 before the NodePools are applied")
		return true
	}
	return false
}

// PriorityExpander is the ConfigMap of Cluster Autoscaler's priority expander: lists of regular expressions for group
// names, by priority.
const PriorityExpander = "cluster-autoscaler-priority-expander"

// priorities are in ascending order.
type priorities []priority

type priority struct {
	value  int
	groups []*regexp.Regexp
}

func (ps *priorities) read(f *fields) {
	data := f.object("data")
	var lists map[int][]string
	if err := yaml.Unmarshal([]byte(text(data.take("priorities"))), &lists); err != nil {
		data.note(Dropped, "priorities", "", "it cannot be read: "+err.Error())
		return
	}
	for _, value := range slices.Sorted(maps.Keys(lists)) {
		p := priority{value: value}
		for _, expression := range lists[value] {
			if e, err := regexp.Compile(expression); err == nil {
				p.groups = append(p.groups, e)
			} else {
				data.note(Dropped, "priorities", "", fmt.Sprintf("%d: %v", value, err))
			}
		}
		*ps = append(*ps, p)
	}
	data.note(Mapped, "priorities", "spec.weight", "")
}

// weight returns a group's priority as a NodePool's weight, which is between 1 and 100; 0 if it has none.
func (ps priorities) weight(group string) (weight int) {
	for _, p := range ps { // the highest counts
		if slices.ContainsFunc(p.groups, func(e *regexp.Regexp) bool { return e.MatchString(group) }) {
			weight = min(max(p.value, 1), 100)
		}
	}
	return weight
}
