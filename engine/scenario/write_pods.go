package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

func (w *writer) daemonLine(m *model.Daemon) *declaration {
	name := quoteName(m.Name)
	if m.Namespace != "kube-system" {
		name = quoteName(m.Namespace) + "/" + name
	}
	d := declare("daemon", name)
	w.shape(d, &m.Shape, m.Namespace)
	return d
}

// row is pods that differ only in a number at the end of their names.
type row struct {
	base     string
	pods     []*model.Pod
	expected bool
}

// pods writes the shapes, each with its first row of pods, then the other pods.
func (w *writer) pods() {
	rows := w.rows()
	taken := map[string]bool{}
	for i := range w.s.Shapes {
		first := -1
		for j, r := range rows[i] {
			if w.inOrder(r) && !taken[r.base] {
				first = j
				break
			}
		}
		var d *declaration
		if first >= 0 {
			r := rows[i][first]
			w.namesOf[i] = r.base
			rows[i] = append(rows[i][:first:first], rows[i][first+1:]...)
			d = declare("pods", strconv.Itoa(len(r.pods)), quoteName(r.base))
			d.fields(waitFields(w.s.Now, r.pods[0], &r.expected)...)
		} else {
			w.namesOf[i] = w.freeName(i, rows[i], taken)
			d = declare("shape", quoteName(w.namesOf[i]))
		}
		taken[w.namesOf[i]] = true
		w.shape(d, &w.s.Shapes[i], "default")
		w.line(d)
	}
	for i := range rows {
		for _, r := range rows[i] {
			w.rest(r, w.namesOf[i])
		}
	}
}

// rows groups the pods of each shape by what precedes the number in their names.
func (w *writer) rows() [][]row {
	type alike struct {
		base, namespace string
		shape           int
		priority        int32
		created         int64
		from, nominated string
		virtual         bool
		expected        bool
	}
	out := make([][]row, len(w.s.Shapes))
	at := map[alike]int{}
	add := func(p *model.Pod, expected bool) {
		base := p.Name
		if dash := strings.LastIndexByte(base, '-'); dash > 0 {
			base = base[:dash]
		}
		k := alike{base, p.Namespace, p.Shape, p.Priority, p.Created.UnixNano(), p.From, p.Nominated, p.Virtual, expected}
		j, ok := at[k]
		if !ok {
			j = len(out[p.Shape])
			at[k] = j
			out[p.Shape] = append(out[p.Shape], row{base: base, expected: expected})
		}
		out[p.Shape][j].pods = append(out[p.Shape][j].pods, p)
	}
	for i := range w.s.Pending {
		add(&w.s.Pending[i], false)
	}
	for i := range w.s.Expected {
		add(&w.s.Expected[i], true)
	}
	return out
}

// inOrder reports whether the row can be written as a number and a name.
func (w *writer) inOrder(r row) bool {
	for i, p := range r.pods {
		if p.Name != numbered(r.base, i, len(r.pods)) || p.UID != "uid-"+p.Name ||
			p.Namespace != (&parser{s: w.s}).namespaceOf(p.Shape) {
			return false
		}
	}
	return true
}

// freeName returns a name for a shape without a row of its own.
func (w *writer) freeName(shape int, rows []row, taken map[string]bool) string {
	name := fmt.Sprintf("shape-%d", shape)
	if len(rows) > 0 {
		name = rows[0].base
	}
	for base := name; taken[name]; name = fmt.Sprintf("%s-%d", base, w.again[base]+1) {
		w.again[base]++
	}
	return name
}

func (w *writer) rest(r row, shape string) {
	if w.inOrder(r) {
		d := declare("pods", strconv.Itoa(len(r.pods)), quoteName(r.base), "as="+quote(shape))
		d.fields(waitFields(w.s.Now, r.pods[0], &r.expected)...)
		w.line(d)
		return
	}
	for _, p := range r.pods {
		d := declare("pod", w.podName(p.PodKey, p.Shape), "as="+quote(shape))
		d.fields(value("uid", &p.UID, "uid-"+p.Name, asIs, strings.Clone))
		w.line(d.fields(waitFields(w.s.Now, p, &r.expected)...))
	}
}

// shape writes the constraints of pods; namespace is the default.
func (w *writer) shape(d *declaration, s *model.Shape, namespace string) {
	d.parts = append(d.parts, w.differing(s.Requests, model.Resources{model.Pods: 1})...)
	d.fields(value("ns", &s.Namespace, namespace, asIs, strings.Clone))
	d.group("labels", labelItems(s.Labels))
	d.group("require", nodeLabels(s.Required))
	d.groups("any", mapped(s.AnyOf, func(rs model.Requirements) string { return joined(nodeLabels(rs)) }))
	d.groups("prefer", mapped(s.Preferred, func(p model.Preference) string {
		return fmt.Sprintf("%d %s", p.Weight, joined(nodeLabels(p.Terms)))
	}))
	d.group("tolerate", mapped(s.Tolerations, tolerationItem))
	term := func(t model.PodTerm) string { return termItem(&t, s.Namespace) }
	d.groups("affinity", mapped(s.Affinity, term))
	d.groups("anti", mapped(s.AntiAffinity, term))
	d.groups("prefer-pods", mapped(s.PreferredPods, func(p model.PodPreference) string {
		return fmt.Sprintf("%+d %s", p.Weight, term(p.PodTerm))
	}))
	d.groups("spread", mapped(s.Spread, func(sp model.Spread) string { return spreadItem(&sp, s.Namespace) }))
	d.group("ports", mapped(s.HostPorts, portItem))
	d.groups("volume", mapped(s.Volumes, volumeItem))
	d.sentence("blocked", s.Blocked)
	d.group("unmodelled", quoteAll(s.Unmodelled))
}
