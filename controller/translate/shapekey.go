package translate

import (
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// shapeKey returns the canonical text of a shape. Every part is quoted or free of the separators.
func (n *Names) shapeKey(s *model.Shape) string {
	k := make(key, 0, 512)
	names := n.List()
	for i, v := range s.Requests {
		if v != 0 {
			k = append(k, names[i]...)
			k = append(k, '=')
			k = strconv.AppendInt(k, v, 10)
			k = append(k, ' ')
		}
	}
	k.requirements("|required:", s.Required)
	for _, t := range s.AnyOf {
		k.requirements("|any:", t)
	}
	for _, p := range s.Preferred {
		k.number("|preferred:", int64(p.Weight))
		k.requirements(" ", p.Terms)
	}
	for _, t := range s.Tolerations {
		k.text("|tolerates:", t.Key)
		k.text("=", t.Value)
		k.flag(" exists", t.Exists)
		k.text(" ", string(t.Effect))
	}
	k.text("|namespace:", s.Namespace)
	k.labels("|labels:", s.Labels)
	k.pods(s)
	for _, p := range s.HostPorts {
		k.text("|port:", p.IP)
		k.text("/", p.Protocol)
		k.number("/", int64(p.Port))
	}
	for i := range s.Volumes {
		k.volume(&s.Volumes[i])
	}
	if s.Blocked != "" {
		k.text("|blocked:", s.Blocked)
	}
	for _, u := range s.Unmodelled {
		k.text("|unmodelled:", u)
	}
	return string(k)
}

// key builds the key of a shape.
type key []byte

func (k *key) text(name, value string) { *k = strconv.AppendQuote(append(*k, name...), value) }

func (k *key) number(name string, v int64) { *k = strconv.AppendInt(append(*k, name...), v, 10) }

func (k *key) flag(name string, set bool) {
	if set {
		*k = append(*k, name...)
	}
}

func (k *key) requirements(name string, rs model.Requirements) {
	if len(rs) > 0 {
		k.text(name, rs.String())
	}
}

func (k *key) labels(name string, labels []model.Label) {
	if len(labels) == 0 {
		return
	}
	*k = append(*k, name...)
	for _, l := range labels {
		k.text(" ", l.Key)
		k.text("=", l.Value)
	}
}

// pods writes the requirements and preferences of a shape about other pods.
func (k *key) pods(s *model.Shape) {
	for i := range s.Affinity {
		k.term("|near:", &s.Affinity[i])
	}
	for i := range s.AntiAffinity {
		k.term("|away:", &s.AntiAffinity[i])
	}
	for i := range s.PreferredPods {
		p := &s.PreferredPods[i]
		k.number("|wish:", int64(p.Weight))
		k.term(" ", &p.PodTerm)
	}
	for i := range s.Spread {
		c := &s.Spread[i]
		k.text("|spread:", c.Topology)
		k.number(" ", int64(c.MaxSkew))
		k.number(" ", int64(c.MinDomains))
		k.flag(" hard", c.Hard)
		k.flag(" any", c.AnyNode)
		k.flag(" untainted", c.Untainted)
		k.selector(&c.Pods)
	}
}

func (k *key) term(name string, t *model.PodTerm) {
	k.text(name, t.Topology)
	k.selector(&t.Pods)
}

func (k *key) selector(s *model.Selector) {
	for _, ns := range s.Namespaces {
		k.text(" in:", ns)
	}
	k.flag(" matching", s.InMatching)
	k.requirements(" namespaces:", s.NamespaceLabels)
	k.flag(" nothing", s.Nothing)
	k.requirements(" labels:", s.Labels)
}

func (k *key) volume(v *model.Volume) {
	k.text("|volume:", v.ID)
	k.text(" of ", v.Driver)
	k.flag(" alone", v.Alone)
	for _, t := range v.Topology {
		k.requirements(" at:", t)
	}
	if v.Short != "" {
		k.text(" short:", v.Short)
	}
}
