package view

import (
	"cmp"
	"slices"
	"strings"
)

// PodName names a pod and its Node.
type PodName struct{ Namespace, Name, Node string }

// Names returns the namespaces with pods, and the pods, whose names contain all words of a text, ignoring case; at
// most most of each. Pods whose own name begins with the first word come first. An empty text matches nothing.
func (m *Model) Names(text string, most int) (namespaces []string, pods []PodName) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return nil, nil
	}
	has := func(name string) bool {
		name = strings.ToLower(name)
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(name, w) })
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[string]bool{} // namespaces, and whether the text matches them
	for _, o := range m.pods.List() {
		p := o.(*Pod)
		if p.Phase == Ended {
			continue
		}
		if _, seen := known[p.Namespace]; !seen {
			if known[p.Namespace] = has(p.Namespace); known[p.Namespace] {
				namespaces = append(namespaces, p.Namespace)
			}
		}
		if has(p.Namespace + "/" + p.Name) {
			pods = append(pods, PodName{p.Namespace, p.Name, p.Node})
		}
	}
	later := func(p PodName) int {
		if strings.HasPrefix(strings.ToLower(p.Name), words[0]) {
			return 0
		}
		return 1
	}
	slices.SortFunc(namespaces, Natural)
	slices.SortFunc(pods, func(a, b PodName) int {
		return cmp.Or(cmp.Compare(later(a), later(b)), Natural(a.Name, b.Name), Natural(a.Namespace, b.Namespace))
	})
	return namespaces[:min(most, len(namespaces))], pods[:min(most, len(pods))]
}
