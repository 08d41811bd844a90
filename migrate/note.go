package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// Fate is what became of a field.
type Fate string

// Fates, from the best to the worst, and Priced.
const (
	Mapped       Fate = "mapped"       // it means the same now
	Added        Fate = "added"        // the default has changed since, so the old one is written out
	Approximated Fate = "approximated" // it means nearly the same now
	Warning      Fate = "warning"      // it is kept, but does not do what was intended
	Dropped      Fate = "dropped"      // nothing of it is left
	Failed       Fate = "failed"       // the object cannot be migrated because of it
	Priced       Fate = "price"        // not about a field: what the nodes cost
)

// Note tells the fate of a field.
type Note struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`  // of the object
	Object string `json:"object"`          // "Provisioner default"
	Field  string `json:"field,omitempty"` // spec.ttlSecondsAfterEmpty; "" = not in the input
	Fate   Fate   `json:"fate"`
	To     string `json:"to,omitempty"`  // NodePool default: spec.disruption.consolidateAfter
	Why    string `json:"why,omitempty"` // and what to do
	target string // what the note is about: the kind of an object, or kind and name; "" = all made of the input's object
}

// fields are the fields of one object of the input. Each is taken once.
type fields struct {
	from   *document
	target string // of their notes
	path   string
	value  map[string]any
	taken  map[string]bool
	notes  *[]Note
	inner  *[]*fields
}

// to returns the same fields with notes about another object.
func (f *fields) to(target string) *fields {
	out := *f
	out.target = target
	return &out
}

func (d *document) fields(notes *[]Note) *fields {
	f := &fields{from: d, value: d.object, taken: map[string]bool{}, notes: notes, inner: &[]*fields{}}
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		f.taken[key] = true
	}
	for _, path := range d.twice {
		f.note(Warning, path, "", "the key occurs twice: the first value is ignored, by Kubernetes too; join the two")
	}
	return f
}

// place returns where an object is written: file and line, or the name of a source that is not a file.
func (n *Note) place() string {
	if n.Line == 0 {
		return printable.Text(n.File)
	}
	return fmt.Sprintf("%s:%d", printable.Text(n.File), n.Line)
}

func (f *fields) note(fate Fate, key, to, why string) {
	n := Note{
		File: f.from.file, Line: f.from.line, Object: f.from.title(), Fate: fate, To: to, Why: why,
		target: f.target,
	}
	if key != "" {
		n.Field = join(f.path, key)
	}
	*f.notes = append(*f.notes, n)
}

// noteOnce notes the fate of a field that several objects share.
func (f *fields) noteOnce(fate Fate, key, to, why string) {
	if !f.taken[key] {
		f.note(fate, key, to, why)
		f.taken[key] = true
	}
}

// take returns a field without noting its fate; nil if it is not set.
func (f *fields) take(key string) any {
	if f == nil {
		return nil
	}
	f.taken[key] = true
	return f.value[key]
}

// move returns a field that means the same in another place.
func (f *fields) move(key, to string) any {
	v := f.take(key)
	if v != nil {
		f.note(Mapped, key, to, "")
	}
	return v
}

// drop notes that a field is left out.
func (f *fields) drop(key, why string) {
	if v := f.take(key); v != nil {
		f.note(Dropped, key, "", why)
	}
}

// dropAll notes that fields are left out, with the reason for each.
func (f *fields) dropAll(why map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(why)) {
		f.drop(key, why[key])
	}
}

// object returns the fields of an object in a field; none if it is not set.
func (f *fields) object(key string) *fields {
	return f.within(key, f.take(key))
}

// within returns the fields of an object at a path.
func (f *fields) within(key string, v any) *fields {
	out := &fields{
		from: f.from, target: f.target, path: join(f.path, key), taken: map[string]bool{}, notes: f.notes,
		inner: &[]*fields{},
	}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		out.value = v
	default:
		f.note(Dropped, key, "", "it is no object")
	}
	*f.inner = append(*f.inner, out)
	return out
}

// list returns a field that is a list.
func (f *fields) list(key string) []any {
	switch v := f.take(key).(type) {
	case nil:
	case []any:
		return v
	default:
		f.note(Dropped, key, "", "it is no list")
	}
	return nil
}

// number returns a field that is a whole number.
func (f *fields) number(key string) (n int, set bool) {
	switch v := f.take(key).(type) {
	case nil:
		return 0, false
	case int:
		return v, true
	default:
		f.note(Dropped, key, "", fmt.Sprintf("%v is no whole number", v))
		return 0, false
	}
}

// rest notes that the fields which were not taken are left out, also those of inner objects.
func (f *fields) rest() {
	why := "it is no field of " + f.from.kind() + " in " + f.from.apiVersion()
	if f.from.answer.kind != "" {
		why = "EC2NodeClasses have nothing like it"
	}
	f.leave(why)
	for _, i := range *f.inner {
		i.rest()
	}
}

// leave notes why the fields that were not taken are left out.
func (f *fields) leave(why string) {
	for _, key := range slices.Sorted(maps.Keys(f.value)) {
		if !f.taken[key] {
			f.drop(key, why)
		}
	}
}

// texts returns the scalars of a list as text.
func texts(list []any) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}

// anys is the inverse of texts.
func anys(list []string) []any {
	out := make([]any, 0, len(list))
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// commas splits a list that is written as one text.
func commas(v string) []string {
	var out []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
