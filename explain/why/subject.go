package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/spelling"
)

// Kinds of subjects besides workloads.
const (
	PodKind   = "pod"
	NodeKind  = "node"
	ClaimKind = "nodeclaim"
	PoolKind  = "nodepool"
)

// workloads are the kinds that create pods, as events and owner references name them, with their API group.
var workloads = map[string]struct{ kind, group string }{
	"deployment": {"Deployment", "apps"}, "replicaset": {"ReplicaSet", "apps"}, "statefulset": {"StatefulSet", "apps"},
	"daemonset": {"DaemonSet", "apps"}, "job": {"Job", "batch"}, "cronjob": {"CronJob", "batch"},
	"replicationcontroller": {"ReplicationController", ""},
}

// spellings are the accepted names of kinds. kindOf also accepts plurals, and the group after a dot, as printed by
// kubectl get -o name.
var spellings = map[string]string{
	PodKind: PodKind, "po": PodKind, NodeKind: NodeKind, "no": NodeKind, ClaimKind: ClaimKind, PoolKind: PoolKind,
	"deployment": "deployment", "deploy": "deployment", "replicaset": "replicaset", "rs": "replicaset",
	"statefulset": "statefulset", "sts": "statefulset", "daemonset": "daemonset", "ds": "daemonset",
	"job": "job", "cronjob": "cronjob", "cj": "cronjob", "replicationcontroller": "replicationcontroller",
	"rc": "replicationcontroller",
}

// kindOf parses a kind.
func kindOf(word string) (string, bool) {
	name, group, grouped := strings.Cut(strings.ToLower(word), ".")
	kind, ok := spellings[name]
	if !ok {
		kind, ok = spellings[strings.TrimSuffix(name, "s")]
	}
	if !grouped {
		return kind, ok
	}
	switch kind {
	case PodKind, NodeKind:
		return kind, false
	case ClaimKind, PoolKind:
		return kind, ok && group == "karpenter.sh"
	}
	return kind, ok && group == workloads[kind].group
}

// Subject is the object of a question.
type Subject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // of a pod or a workload
	Name      string `json:"name"`
}

// String returns the subject as kubectl names it, with its namespace.
func (s Subject) String() string {
	if s.Namespace != "" {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// Workload reports whether the subject owns pods; the answer is then about its pods.
func (s Subject) Workload() bool { return workloads[s.Kind].kind != "" }

// Parse parses "pod/web", or "pod" and "web". namespace applies to kinds that have one.
func Parse(namespace string, words ...string) (Subject, error) {
	const how = "give pod/NAME, deployment/NAME (or another workload), node/NAME, nodeclaim/NAME or nodepool/NAME"
	var kind, name string
	switch len(words) {
	case 1:
		var ok bool
		if kind, name, ok = strings.Cut(words[0], "/"); !ok {
			return Subject{}, fmt.Errorf("%q has no kind: %s", words[0], how)
		}
	case 2:
		kind, name = words[0], words[1]
	default:
		return Subject{}, fmt.Errorf("%d words instead of one object: %s", len(words), how)
	}
	known, ok := kindOf(kind)
	switch {
	case !ok:
		return Subject{}, fmt.Errorf("unknown kind %q: %s", kind, how)
	case name == "" || strings.ContainsAny(name, "/ "):
		return Subject{}, fmt.Errorf("%q is not the name of a %s: %s", name, known, how)
	}
	s := Subject{Kind: known, Name: name}
	if known == PodKind || s.Workload() {
		s.Namespace = cmp.Or(namespace, corev1.NamespaceDefault)
	}
	return s, nil
}

// names returns the names of all objects of the subject's kind; for pods, only those in its namespace.
func (q *question) names(of Subject) []string {
	var out []string
	switch of.Kind {
	case PodKind:
		for _, key := range q.podKeys() {
			if key.Namespace == of.Namespace {
				out = append(out, key.Name)
			}
		}
	case NodeKind:
		for i := range q.s.Nodes {
			if q.c.State.Node(q.s.Nodes[i].Name) != nil {
				out = append(out, q.s.Nodes[i].Name)
			}
		}
	case ClaimKind:
		for _, c := range q.c.State.Claims() {
			out = append(out, c.Name)
		}
	case PoolKind:
		for _, p := range q.c.State.NodePools() {
			out = append(out, p.Name)
		}
	}
	return out
}

// podKeys returns all known pods, by namespace and name.
func (q *question) podKeys() []types.NamespacedName {
	var out []types.NamespacedName
	for i := range q.s.Pending {
		out = append(out, types.NamespacedName{Namespace: q.s.Pending[i].Namespace, Name: q.s.Pending[i].Name})
	}
	for i := range q.s.Nodes {
		for j := range q.s.Nodes[i].Pods {
			p := &q.s.Nodes[i].Pods[j]
			out = append(out, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// unknown returns the error for an object that does not exist, with what may have been meant.
func (q *question) unknown(of Subject, unread error) error {
	hint := ""
	if near := nearest(of.Name, q.names(of)); len(near) > 0 {
		hint += "; did you mean " + strings.Join(near, ", ")
	}
	if of.Kind == PodKind {
		for _, key := range q.podKeys() {
			if key.Name == of.Name && key.Namespace != of.Namespace {
				hint += fmt.Sprintf("; namespace %s has one: -n %s", key.Namespace, key.Namespace)
			}
		}
	}
	for _, kind := range []string{NodeKind, ClaimKind, PoolKind} {
		if kind != of.Kind && slices.Contains(q.names(Subject{Kind: kind}), of.Name) {
			hint += fmt.Sprintf("; there is a %s of that name: %s/%s", kind, kind, of.Name)
		}
	}
	if unread != nil {
		return fmt.Errorf("%s not found%s; whether it existed is unknown: %w", of, hint, unread)
	}
	return fmt.Errorf("%s not found, and no event or decision mentions it%s", of, hint)
}

// maxSuggestions is how many names are suggested.
const maxSuggestions = 4

// nearest returns the names most similar to the requested one.
func nearest(asked string, names []string) []string {
	type candidate struct {
		name string
		far  int
	}
	var near []candidate
	for _, name := range names {
		far := spelling.EditDistance(asked, name)
		if strings.HasPrefix(name, asked) || strings.HasPrefix(asked, name) {
			far = min(far, 1)
		}
		if far <= max(2, len(asked)/4) {
			near = append(near, candidate{name, far})
		}
	}
	slices.SortFunc(near, func(a,
		b candidate,
	) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range near[:min(maxSuggestions, len(near))] {
		out = append(out, c.name)
	}
	return out
}
