package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds one can ask about.
const (
	PodKind   = "pod"
	NodeKind  = "node"
	ClaimKind = "nodeclaim"
	PoolKind  = "nodepool"
)

// spellings are how people write them.
var spellings = map[string]string{
	"pod": PodKind, "pods": PodKind, "po": PodKind,
	"node": NodeKind, "nodes": NodeKind, "no": NodeKind,
	"nodeclaim": ClaimKind, "nodeclaims": ClaimKind, "nodeclaims.karpenter.sh": ClaimKind,
	"nodepool": PoolKind, "nodepools": PoolKind, "nodepools.karpenter.sh": PoolKind,
}

// Subject is what is asked about.
type Subject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // of a pod
	Name      string `json:"name"`
}

// String is the subject as kubectl takes it, with its namespace.
func (s Subject) String() string {
	if s.Kind == PodKind {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// Parse reads "pod/web", or "pod" and "web". Of a pod the namespace is the given one.
func Parse(namespace string, words ...string) (Subject, error) {
	const how = "ask for pod/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME"
	var kind, name string
	switch len(words) {
	case 1:
		var ok bool
		if kind, name, ok = strings.Cut(words[0], "/"); !ok {
			return Subject{}, fmt.Errorf("%q says no kind: %s", words[0], how)
		}
	case 2:
		kind, name = words[0], words[1]
	default:
		return Subject{}, fmt.Errorf("%d words where one object is wanted: %s", len(words), how)
	}
	known, ok := spellings[strings.ToLower(kind)]
	switch {
	case !ok:
		return Subject{}, fmt.Errorf("unknown kind %q: %s", kind, how)
	case name == "" || strings.ContainsAny(name, "/ "):
		return Subject{}, fmt.Errorf("%q is no name of a %s: %s", name, known, how)
	}
	s := Subject{Kind: known, Name: name}
	if known == PodKind {
		s.Namespace = cmp.Or(namespace, corev1.NamespaceDefault)
	}
	return s, nil
}

// Names are those of all objects of a kind; of pods only those of the namespace.
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
			if q.c.World.Node(q.s.Nodes[i].Name) != nil {
				out = append(out, q.s.Nodes[i].Name)
			}
		}
	case ClaimKind:
		for _, c := range q.c.World.Claims() {
			out = append(out, c.Name)
		}
	case PoolKind:
		for _, p := range q.c.World.NodePools() {
			out = append(out, p.Name)
		}
	}
	return out
}

// podKeys are all pods that are known, by namespace and name.
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

// unknown says that there is no such object, and what comes near it.
func (q *question) unknown(of Subject, unread error) error {
	text := fmt.Sprintf("there is no %s", of)
	if near := nearest(of.Name, q.names(of)); len(near) > 0 {
		text += "; near it: " + strings.Join(near, ", ")
	}
	if of.Kind == PodKind {
		for _, key := range q.podKeys() {
			if key.Name == of.Name && key.Namespace != of.Namespace {
				text += fmt.Sprintf("; there is one in namespace %s: -n %s", key.Namespace, key.Namespace)
			}
		}
	}
	for _, kind := range []string{NodeKind, ClaimKind, PoolKind} {
		if kind != of.Kind && slices.Contains(q.names(Subject{Kind: kind}), of.Name) {
			text += fmt.Sprintf("; there is a %s of that name: %s/%s", kind, kind, of.Name)
		}
	}
	if unread != nil {
		return fmt.Errorf("%s; whether there was one is not known: %w", text, unread)
	}
	return fmt.Errorf("%s, and nothing in the cluster remembers one", text)
}

// mostNear is how many names are offered.
const mostNear = 4

// nearest are the names that differ least from what was asked for: a few letters, or the end.
func nearest(asked string, names []string) []string {
	type candidate struct {
		name string
		far  int
	}
	var near []candidate
	for _, name := range names {
		far := distance(asked, name)
		if strings.HasPrefix(name, asked) || strings.HasPrefix(asked, name) {
			far = min(far, 1)
		}
		if far <= max(2, len(asked)/4) {
			near = append(near, candidate{name, far})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name)) })
	var out []string
	for _, c := range near[:min(mostNear, len(near))] {
		out = append(out, c.name)
	}
	return out
}

// distance is how many letters have to be put in, left out or changed to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		before := row[0]
		row[0] = i + 1
		for j := range y {
			cost := before
			if x[i] != y[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
