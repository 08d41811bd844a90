package migrate

import (
	"fmt"
	"maps"
	"slices"
)

// renamed maps labels and annotations of pods, nodes and selectors to their new names.
var renamed = map[string]string{
	"karpenter.sh/provisioner-name":   "karpenter.sh/nodepool",
	"karpenter.sh/do-not-evict":       "karpenter.sh/do-not-disrupt",
	"karpenter.sh/do-not-consolidate": "karpenter.sh/do-not-disrupt",
}

// SafeToEvict is Cluster Autoscaler's annotation of pods that it must not evict (its FAQ, "What types of pods can
// prevent CA from removing a node?").
const SafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// workloads are the kinds whose pods may name Karpenter's labels.
var workloads = []string{
	"Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob",
	"PodTemplate", "Rollout", "Node",
}

// workload renames Karpenter's labels and annotations in an object with pods, and reports whether d is one.
func (m *migration) workload(d *document) bool {
	if !slices.Contains(workloads, d.kind()) {
		return false
	}
	r := renamer{fields: d.fields(&m.notes)}
	value, _ := r.value(d.object, "").(map[string]any)
	m.others = append(m.others, &Object{Value: value, from: d.title()})
	return true
}

// Concerns reports whether a Kubernetes object that may be a workload needs migration: it has pods with old labels or
// annotations, or is Cluster Autoscaler.
func Concerns(object map[string]any) bool {
	d := &document{object: object}
	m := &migration{}
	return m.setting(d) || m.workload(d) && len(m.notes) > 0
}

type renamer struct{ fields *fields }

func (r *renamer) value(v any, path string) any {
	switch v := v.(type) {
	case map[string]any:
		return r.object(v, path)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = r.value(v[i], fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	}
	return v
}

func (r *renamer) object(v map[string]any, path string) any {
	out := make(map[string]any, len(v))
	for _, k := range slices.Sorted(maps.Keys(v)) {
		at := join(path, k)
		switch now, old := renamed[k]; {
		case old:
			r.fields.note(Mapped, at, now, "")
			out[now] = v[k]
		case k == SafeToEvict && text(v[k]) == "false" && v["karpenter.sh/do-not-disrupt"] == nil:
			r.fields.note(Mapped, at, "karpenter.sh/do-not-disrupt", "")
			out[k], out["karpenter.sh/do-not-disrupt"] = v[k], "true"
		case (k == "key" || k == "topologyKey") && renamed[text(v[k])] != "":
			out[k] = renamed[text(v[k])]
			r.fields.note(Mapped, at, text(out[k]), "")
		default:
			out[k] = r.value(v[k], at)
		}
	}
	return out
}
