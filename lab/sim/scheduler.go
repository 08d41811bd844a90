package sim

import (
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// kubeScheduler is the simulated kube-scheduler, on the few resources that pods of traces ask for. It knows no other
// constraint (traces have none) and is not engine/rules, for speed: a day has millions of placements.
type kubeScheduler struct {
	mostAllocated bool
	cursor        int // where it begins to look
}

// find is the machine that kube-scheduler would bind the pod to, -1 if none has room: of those it looks at, the one
// with the highest sum of NodeResourcesFit's score (LeastAllocated by default) and NodeResourcesBalancedAllocation's.
// In a large cluster it does not look at all: with 100 machines or more at 50 % less 1 % for each 125, at least 5 %
// and 100 machines that have room (Kubernetes documentation, "Scheduler Performance Tuning", 2026), beginning where
// it stopped before.
func (k *kubeScheduler) find(slots []slot, ask *vector) int {
	n := len(slots)
	enough := n
	if n > 100 {
		enough = max(n*max(50-n/125, 5)/100, 100)
	}
	if n == 0 {
		return -1
	}
	k.cursor %= n // there may have been more machines when it stopped
	best, bestScore := -1, int64(-1)
	found, looked := 0, 0
	for ; looked < n && found < enough; looked++ {
		i := k.cursor + looked
		if i >= n {
			i -= n
		}
		s := &slots[i]
		if !s.takes || !ask.fitsBeside(s) {
			continue
		}
		found++
		if score := k.score(ask, s); score > bestScore {
			best, bestScore = i, score
		}
	}
	k.cursor = (k.cursor + looked) % n
	return best
}

// score is from 0 to 200.
func (k *kubeScheduler) score(ask *vector, s *slot) int64 {
	var part [2]float64 // of cpu and memory that would be requested
	for i := range part {
		if s.all[i] > 0 {
			part[i] = float64(s.all[i]-s.free[i]+ask[i]) / float64(s.all[i])
		}
	}
	fit := int64(100 * (1 - (part[0]+part[1])/2))
	if k.mostAllocated {
		fit = 100 - fit
	}
	return fit + int64(100*(1-math.Abs(part[0]-part[1])/2)) // of two values the standard deviation is half their distance
}

// schedule binds the pod if some machine has room for it now.
func (r *run) schedule(p int32) bool {
	i := r.scheduler.find(r.slots, &r.asks[r.pods[p].shape])
	if i < 0 {
		return false
	}
	r.bind(p, r.machines[i], i)
	return true
}

// fill binds pods that wait to a machine that has room again.
func (r *run) fill(m *machine) {
	if len(r.waiting) == 0 || !m.takes {
		return
	}
	i := r.index(m)
	r.waiting = slices.DeleteFunc(r.waiting, func(p int32) bool {
		ask := &r.asks[r.pods[p].shape]
		if r.pods[p].nominee != m && !ask.fitsBeside(&r.slots[i]) || !ask.fits(&r.slots[i].free) {
			return false
		}
		r.bind(p, m, i)
		return true
	})
}

func (r *run) bind(id int32, m *machine, slot int) {
	p := &r.pods[id]
	r.waited(p, r.now)
	r.hold(id, nil)
	p.machine, p.placed, p.ends = m, true, r.now+p.left
	p.turn++
	r.queue.add(event{at: p.ends, kind: departs, pod: id, turn: p.turn})
	ask := &r.asks[p.shape]
	for d := range ask {
		r.slots[slot].free[d] -= ask[d]
	}
	r.wasEmpty(m, r.now)
	at, _ := slices.BinarySearch(m.pods, id)
	m.pods = slices.Insert(m.pods, at, id)
	pods := make([]model.BoundPod, 0, len(m.pods)+2)
	pods = append(append(pods, m.node.Pods[:at]...), model.BoundPod{Pod: r.modelPod(p), EvictionCost: 1000})
	m.node.Pods = append(pods, m.node.Pods[at:]...)
	m.node.Used = m.node.Used.Plus(r.shapes[p.shape].Requests)
	m.node.LastPodEvent = r.time(r.now)
	r.touch(m)
	r.changed()
}

// leave takes a running pod off its machine.
func (r *run) leave(id int32) {
	p := &r.pods[id]
	m := p.machine
	p.machine = nil
	p.turn++
	at, _ := slices.BinarySearch(m.pods, id)
	m.pods = slices.Delete(m.pods, at, at+1)
	m.idle = r.now
	pods := make([]model.BoundPod, 0, len(m.pods)+1)
	m.node.Pods = append(append(pods, m.node.Pods[:at]...), m.node.Pods[at+1:]...)
	m.node.Used = m.node.Used.Minus(r.shapes[p.shape].Requests)
	m.node.LastPodEvent = r.time(r.now)
	r.touch(m)
	ask, slot := &r.asks[p.shape], r.index(m)
	for d := range ask {
		r.slots[slot].free[d] += ask[d]
	}
	r.changed()
}

func (r *run) modelPod(p *pod) model.Pod {
	out := model.Pod{PodKey: p.key, Shape: int(p.shape), Created: r.time(p.created)}
	if p.nominee != nil && p.machine == nil {
		out.Nominated = p.nominee.node.Name
	}
	return out
}

func (r *run) time(at time.Duration) time.Time { return r.epoch.Add(at) }
