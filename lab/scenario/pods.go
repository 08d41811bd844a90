package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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

// shapeOf returns the shape that the line refers to, or declares it under the name.
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

const maxPods = 1_000_000

func (p *parser) addPods(l *line) error {
	n, err := strconv.Atoi(l.words[1])
	if err != nil || n < 0 || n > maxPods || len(l.words) < 3 {
		return fmt.Errorf("want a number up to a million and a name")
	}
	if len(p.s.Pending)+len(p.s.Expected)+n > maxPods {
		return fmt.Errorf("more than a million pods in all")
	}
	base := leaf(l.words[2])
	pod := model.Pod{Created: p.s.Now}
	if pod.Shape, err = p.shapeOf(l, base); err != nil {
		return err
	}
	pod.Namespace = p.namespaceOf(pod.Shape)
	list, err := p.wait(l, &pod, 3)
	if err != nil {
		return err
	}
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

// wait reads the fields of pending pods, and returns the list they belong to. words is the number of leading words of
// the line.
func (p *parser) wait(l *line, pod *model.Pod, words int) (*[]model.Pod, error) {
	expected := false
	if err := l.fields(words, waitFields(p.s.Now, pod, &expected)...); err != nil {
		return nil, err
	}
	if expected {
		return &p.s.Expected, nil
	}
	return &p.s.Pending, nil
}

// numbered returns the name of the i-th of n pods.
func numbered(base string, i, n int) string {
	return fmt.Sprintf("%s-%0*d", base, len(strconv.Itoa(n)), i+1)
}

// namespaceOf returns the default namespace for pods of a shape.
func (p *parser) namespaceOf(shape int) string {
	if shape >= 0 && p.s.Shapes[shape].Namespace != "" {
		return p.s.Shapes[shape].Namespace
	}
	return "default"
}

// waitFields are the fields of a pending pod other than its shape.
func waitFields(now time.Time, pod *model.Pod, expected *bool) []field {
	return []field{
		number("priority", &pod.Priority),
		ago("age", now, &pod.Created),
		text("from", &pod.From),
		text("nominated", &pod.Nominated),
		word("virtual", &pod.Virtual),
		word("expected", expected),
	}
}

// addPod reads one pod that is not part of a numbered row.
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
	if err := l.fields(2, text("uid", &pod.UID)); err != nil {
		return err
	}
	if err := p.once("pod", pod.Namespace+"/"+pod.Name); err != nil {
		return err
	}
	list, err := p.wait(l, &pod, 2)
	if err == nil {
		*list = append(*list, pod)
	}
	return err
}

// slashed splits namespace/name; namespace is nil without a slash.
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

// ordinaryCost is the eviction cost of a pod by default.
const ordinaryCost = 1000

// boundFields are the fields of a pod on a node other than its shape.
func boundFields(now time.Time, b *model.BoundPod) []field {
	return []field{
		word("daemon", &b.Daemon),
		word("terminal", &b.Terminal),
		word("leaving", &b.Terminating),
		word("do-not-disrupt", &b.DoNotDisrupt),
		text("held", &b.EvictionBlocked),
		number("cost", &b.EvictionCost),
		jobField(now, b),
		jobEndField(now, b),
		text("from", &b.From),
		word("virtual", &b.Virtual),
		text("uid", &b.UID),
		number("priority", &b.Priority),
		ago("age", now, &b.Created),
	}
}

// jobField is job=5m|10m|12m: how long a Job's pod has run, then how long earlier ones ran.
func jobField(now time.Time, b *model.BoundPod) field {
	return field{name: "job", read: func(text string) error {
		b.Job = &model.JobRun{}
		for i, one := range strings.Split(text, "|") {
			d, err := time.ParseDuration(one)
			if err != nil {
				return err
			}
			if i == 0 {
				b.Job.Started = now.Add(-d)
			} else {
				b.Job.Past = append(b.Job.Past, d)
			}
		}
		return nil
	}}
}

// jobEndField is job-ends=1h: when the deadline of the Job passes.
func jobEndField(now time.Time, b *model.BoundPod) field {
	return field{name: "job-ends", read: func(text string) error {
		if b.Job == nil {
			b.Job = &model.JobRun{}
		}
		return ahead("", now, &b.Job.EndsBy).read(text)
	}}
}

// bound reads a pod of a node: its name, then its fields.
func (p *parser) bound(item, node string) (b model.BoundPod, err error) {
	words := fields(item)
	namespace, name := slashed(words[0])
	b.Name, b.UID, b.Shape, b.EvictionCost = name, "uid-"+name+"-"+node, -1, ordinaryCost
	known := boundFields(p.s.Now, &b)
	for i := 1; i < len(words); i++ {
		if words[i] != "as" {
			err = readItem(words[i], known)
		} else if i++; i == len(words) {
			err = fmt.Errorf("want a shape after as")
		} else {
			b.Shape, err = p.named(leaf(words[i]))
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
