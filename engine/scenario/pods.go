package scenario

import (
	"fmt"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

func (p *parser) addShape(l *line, name string) (int, error) {
	if err := p.once("shape", name); err != nil {
		return 0, err
	}
	shape, err := p.shape(l, "default")
	p.s.Shapes = append(p.s.Shapes, shape)
	p.shapes[name] = len(p.s.Shapes) - 1
	return p.shapes[name], err
}

// shapeOf is the shape that the line refers to, or declares itself under the name.
func (p *parser) shapeOf(l *line, name string) (int, error) {
	other, ok := l.value("as")
	if !ok {
		return p.addShape(l, name)
	}
	return p.named(other)
}

func (p *parser) named(name string) (int, error) {
	i, ok := p.shapes[name]
	if !ok {
		return 0, fmt.Errorf("as=%s: no such shape is declared above", quote(name))
	}
	return i, nil
}

const mostPods = 1_000_000

func (p *parser) addPods(l *line) error {
	n, err := strconv.Atoi(l.words[1])
	if err != nil || n < 0 || n > mostPods || len(l.words) < 3 {
		return fmt.Errorf("want a number up to a million and a name")
	}
	if len(p.s.Pending)+len(p.s.Expected)+n > mostPods {
		return fmt.Errorf("more than a million pods in all")
	}
	base := leaf(l.words[2])
	pod := model.Pod{Created: p.s.Now}
	if pod.Shape, err = p.shapeOf(l, base); err != nil {
		return err
	}
	pod.Namespace = p.namespaceOf(pod.Shape)
	if err := p.when(l, &pod); err != nil {
		return err
	}
	list := p.listOf(l)
	for i := range n {
		pod.Name = numbered(base, i, n)
		pod.UID = "uid-" + pod.Name
		if err := p.once("pod", pod.Namespace+"/"+pod.Name); err != nil {
			return err
		}
		*list = append(*list, pod)
	}
	return nil
}

// listOf is where the pods of a line belong.
func (p *parser) listOf(l *line) *[]model.Pod {
	if l.says("expected", numberedWords[l.kind()]) {
		return &p.s.Expected
	}
	return &p.s.Pending
}

// numberedWords is how many words of a line come before those that may be left out, by its kind.
var numberedWords = map[string]int{"pods": 3, "pod": 2}

// numbered is the name of the i-th of n pods.
func numbered(base string, i, n int) string {
	return fmt.Sprintf("%s-%0*d", base, len(strconv.Itoa(n)), i+1)
}

// namespaceOf is where the pods of a shape are if nothing else is said.
func (p *parser) namespaceOf(shape int) string {
	if shape >= 0 && p.s.Shapes[shape].Namespace != "" {
		return p.s.Shapes[shape].Namespace
	}
	return "default"
}

func (p *parser) when(l *line, pod *model.Pod) error {
	if err := set(l, "priority", &pod.Priority); err != nil {
		return err
	}
	pod.From, _ = l.value("from")
	pod.Nominated, _ = l.value("nominated")
	pod.Virtual = l.says("virtual", numberedWords[l.kind()])
	return p.ago(l, "age", &pod.Created)
}

// addPod reads one pod that is not of a numbered row.
func (p *parser) addPod(l *line) (err error) {
	pod := model.Pod{Created: p.s.Now}
	namespace, name := slashed(l.words[1])
	if name == "" {
		return fmt.Errorf("the name is missing")
	}
	if pod.Shape, err = p.shapeOf(l, name); err != nil {
		return err
	}
	if pod.Name = name; namespace == nil {
		pod.Namespace = p.namespaceOf(pod.Shape)
	} else {
		pod.Namespace = *namespace
	}
	pod.UID = "uid-" + pod.Name
	if uid, ok := l.value("uid"); ok {
		pod.UID = uid
	}
	if err := p.once("pod", pod.Namespace+"/"+pod.Name); err != nil {
		return err
	}
	err = p.when(l, &pod)
	list := p.listOf(l)
	*list = append(*list, pod)
	return err
}

// slashed splits namespace/name; without a slash there is no namespace.
func slashed(word string) (namespace *string, name string) {
	before, after, ok := cut(word, "/")
	if !ok {
		return nil, leaf(word)
	}
	before = leaf(before)
	return &before, leaf(after)
}

func (p *parser) addDaemon(l *line) (err error) {
	namespace, name := slashed(l.words[1])
	if name == "" {
		return fmt.Errorf("the name is missing")
	}
	d := model.Daemon{Namespace: "kube-system", Name: name}
	if namespace != nil {
		d.Namespace = *namespace
	}
	if err := p.once("daemon", d.Namespace+"/"+d.Name); err != nil {
		return err
	}
	d.Shape, err = p.shape(l, d.Namespace)
	p.s.Daemons = append(p.s.Daemons, d)
	return err
}

// ordinaryCost is the eviction cost of a pod of which nothing is said.
const ordinaryCost = 1000

// bound reads a pod of a node: its name, then what else there is to say.
func (p *parser) bound(item, node string) (b model.BoundPod, err error) {
	words := fields(item)
	namespace, name := slashed(words[0])
	b.Name, b.UID, b.Shape, b.EvictionCost = name, "uid-"+name+"-"+node, -1, ordinaryCost
	for i := 1; i < len(words); i++ {
		key, value, _ := cut(words[i], "=")
		switch key {
		case "as":
			if i++; i == len(words) {
				return b, fmt.Errorf("runs(%s): want a shape after as", item)
			}
			b.Shape, err = p.named(leaf(words[i]))
		case "daemon":
			b.Daemon = true
		case "terminal":
			b.Terminal = true
		case "leaving":
			b.Terminating = true
		case "do-not-disrupt":
			b.DoNotDisrupt = true
		case "held":
			b.EvictionBlocked = leaf(value)
		case "cost":
			b.EvictionCost, err = whole[int32](value)
		case "job":
			b.Job, err = p.job(value)
		case "job-ends":
			b.Job, err = p.jobEnd(b.Job, value)
		case "from":
			b.From = leaf(value)
		case "virtual":
			b.Virtual = true
		case "uid":
			b.UID = leaf(value)
		case "priority":
			b.Priority, err = whole[int32](value)
		case "age":
			b.Created, err = p.before(leaf(value))
		default:
			err = fmt.Errorf("%s: unknown word", words[i])
		}
		if err != nil {
			return b, fmt.Errorf("runs(%s): %w", item, err)
		}
	}
	b.Namespace = p.namespaceOf(b.Shape)
	if namespace != nil {
		b.Namespace = *namespace
	}
	return b, nil
}
