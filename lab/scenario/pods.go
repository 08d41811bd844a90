package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

func (p *parser) addShape(l *line, name string) int {
	p.once(l, "shape", name)
	p.s.Shapes = append(p.s.Shapes, p.shape(l, "default"))
	p.shapes[name] = len(p.s.Shapes) - 1
	return p.shapes[name]
}

// shapeOf returns the shape that the line refers to, or declares it under the name.
func (p *parser) shapeOf(l *line, name string) int {
	other, ok := l.value("as")
	if !ok {
		return p.addShape(l, name)
	}
	return p.named(l, other)
}

// named returns the shape declared under the name, or -1 if there is none.
func (p *parser) named(l *line, name string) int {
	i, ok := p.shapes[name]
	if !ok {
		l.failf("as=%s: no such shape is declared above", quote(name))
		return -1
	}
	return i
}

const maxPods = 1_000_000

func (p *parser) addPods(l *line) {
	n, err := strconv.Atoi(l.words[1])
	if err != nil || n < 0 || n > maxPods || len(l.words) < 3 {
		l.failf("want a number up to a million and a name")
		return
	}
	if len(p.s.Pending)+len(p.s.Expected)+n > maxPods {
		l.failf("more than a million pods in all")
		return
	}
	base := leaf(l.words[2])
	pod := model.Pod{Created: p.s.Now, Shape: p.shapeOf(l, base)}
	pod.Namespace = p.namespaceOf(pod.Shape)
	list := p.wait(l, &pod, 3)
	for i := 0; i < n && l.err == nil; i++ {
		pod.Name = numbered(base, i, n)
		pod.UID = "uid-" + pod.Name
		p.once(l, "pod", pod.Namespace+"/"+pod.Name)
		*list = append(*list, pod)
	}
}

// wait reads the fields of a pending pod, and returns the list the pod belongs to. words is the number of leading
// words of the line.
func (p *parser) wait(l *line, pod *model.Pod, words int) *[]model.Pod {
	expected := false
	l.fields(words, waitFields(p.s.Now, pod, &expected)...)
	if expected {
		return &p.s.Expected
	}
	return &p.s.Pending
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
		word("template", &pod.FromTemplate),
	}
}

// addPod reads a single pod, which is not part of a numbered series.
func (p *parser) addPod(l *line) {
	namespace, name := slashed(l.words[1])
	if name == "" {
		l.failf("the name is missing")
	}
	pod := model.Pod{Created: p.s.Now, Shape: p.shapeOf(l, name)}
	if pod.Name = name; namespace == nil {
		pod.Namespace = p.namespaceOf(pod.Shape)
	} else {
		pod.Namespace = *namespace
	}
	pod.UID = "uid-" + pod.Name
	l.fields(2, text("uid", &pod.UID))
	p.once(l, "pod", pod.Namespace+"/"+pod.Name)
	list := p.wait(l, &pod, 2)
	*list = append(*list, pod)
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

func (p *parser) addDaemon(l *line) {
	namespace, name := slashed(l.words[1])
	if name == "" {
		l.failf("the name is missing")
	}
	d := model.Daemon{Namespace: "kube-system", Name: name}
	if namespace != nil {
		d.Namespace = *namespace
	}
	p.once(l, "daemon", d.Namespace+"/"+d.Name)
	d.Shape = p.shape(l, d.Namespace)
	p.s.Daemons = append(p.s.Daemons, d)
}

// ordinaryCost is the default eviction cost of a pod.
const ordinaryCost = 1000

// boundFields are the fields of a pod on a node other than its shape.
func boundFields(now time.Time, b *model.BoundPod) []field {
	return []field{
		word("daemon", &b.Daemon),
		word("terminal", &b.Terminal),
		word("leaving", &b.Terminating),
		word("returns", &b.Returns),
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

// jobField is job=5m|10m|12m: how long a Job's pod has run, then how long earlier pods of the Job ran.
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
func (p *parser) bound(l *line, item, node string) (b model.BoundPod) {
	words := fields(item)
	namespace, name := slashed(words[0])
	b.Name, b.UID, b.Shape, b.EvictionCost = name, "uid-"+name+"-"+node, -1, ordinaryCost
	known := boundFields(p.s.Now, &b)
	l.in("runs("+item+")", func() {
		for i := 1; i < len(words); i++ {
			if words[i] != "as" {
				if err := readItem(words[i], known); err != nil {
					l.failf("%w", err)
				}
			} else if i++; i == len(words) {
				l.failf("want a shape after as")
			} else {
				b.Shape = p.named(l, leaf(words[i]))
			}
		}
	})
	b.Namespace = p.namespaceOf(b.Shape)
	if namespace != nil {
		b.Namespace = *namespace
	}
	return b
}
