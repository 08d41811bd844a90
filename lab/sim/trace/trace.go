// Package trace reads lists of pods with the time at which each arrived and how long it ran: public cluster traces as
// they were published, and a small format of our own.
package trace

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Pod is one pod of a trace.
type Pod struct {
	CPU    int64 // millicores
	Memory int64 // bytes
	GPUs   int64
	Start  time.Duration // since the trace began
	Life   time.Duration // how long it runs, at least a second
	// Owner identifies the ReplicaSet that owns the pod and is the same for all of its pods; 0 = none or a Job.
	Owner int32
}

// Trace is a list of pods.
type Trace struct {
	Name string
	Pods []Pod // by Start; the first one starts at 0
	// Skipped is the number of rows that do not describe a pod which ran: they lack times or requests, or did not
	// finish.
	Skipped int
}

// Length returns the time from the first start to the last end.
func (t *Trace) Length() (length time.Duration) {
	for i := range t.Pods {
		length = max(length, t.Pods[i].Start+t.Pods[i].Life)
	}
	return length
}

// MeanLive returns the mean number of pods that run at a time.
func (t *Trace) MeanLive() float64 {
	sum, length := 0.0, t.Length()
	for i := range t.Pods {
		sum += t.Pods[i].Life.Seconds()
	}
	if length == 0 {
		return 0
	}
	return sum / length.Seconds()
}

// HasGPUs reports whether any pod requests a GPU.
func (t *Trace) HasGPUs() bool {
	return slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.GPUs > 0 })
}

// WithoutGPUs returns the trace with all GPU requests removed.
func (t *Trace) WithoutGPUs() *Trace {
	out := *t
	out.Pods = slices.Clone(t.Pods)
	for i := range out.Pods {
		out.Pods[i].GPUs = 0
	}
	return &out
}

// Window returns the part of the trace that begins at from and lasts length; a length of 0 means to the end. Pods
// that started earlier start at from, and those that have not ended by the end of the window end then.
func (t *Trace) Window(from, length time.Duration) *Trace {
	out := *t
	out.Pods = nil
	end := t.Length()
	if length > 0 {
		end = min(end, from+length)
	}
	for _, p := range t.Pods {
		stop := min(p.Start+p.Life, end)
		if p.Start = max(p.Start, from); stop > p.Start {
			p.Life = stop - p.Start
			out.Pods = append(out.Pods, p)
		}
	}
	return out.sorted()
}

// Copies returns n copies of the trace on top of each other. Each copy but the first is rotated in time by an offset
// derived from the seed. The result has n times as many pods of the same lifetimes, in a larger cluster.
func (t *Trace) Copies(n int, seed uint64) *Trace {
	out := *t
	out.Pods = slices.Clone(t.Pods)
	random, length := rand.New(rand.NewPCG(seed, 1)), t.Length()
	for range n - 1 {
		shift := time.Duration(random.Int64N(int64(max(length, 1)))).Truncate(time.Second)
		for _, p := range t.Pods {
			p.Start = (p.Start + shift) % length
			if over := p.Start + p.Life - length; over > 0 { // the part beyond the end wraps around to the beginning
				rest := p
				rest.Start, rest.Life = 0, over
				p.Life -= over
				out.Pods = append(out.Pods, rest)
			}
			if p.Life > 0 {
				out.Pods = append(out.Pods, p)
			}
		}
	}
	return out.sorted()
}

// sorted sorts the pods by start and shifts them so that the first starts at 0.
func (t *Trace) sorted() *Trace {
	slices.SortStableFunc(t.Pods, func(a, b Pod) int { return cmp.Compare(a.Start, b.Start) })
	if len(t.Pods) > 0 {
		first := t.Pods[0].Start
		for i := range t.Pods {
			t.Pods[i].Start -= first
			t.Pods[i].Life = max(t.Pods[i].Life, time.Second)
		}
	}
	return t
}

// valid returns an error that says what is wrong with a pod, if anything.
func (p *Pod) valid() error {
	const most = 1 << 50
	switch {
	case p.CPU < 0 || p.Memory < 0 || p.GPUs < 0 || p.CPU > most || p.Memory > most || p.GPUs > most:
		return fmt.Errorf("cpu %dm, memory %d, GPUs %d: amounts are from 0 to 2^50", p.CPU, p.Memory, p.GPUs)
	case p.Life < 0:
		return fmt.Errorf("it ends before it starts")
	}
	return nil
}
