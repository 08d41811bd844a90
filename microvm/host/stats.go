package host

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Window implements metricsapi.Source: the interval over which CPU usage is measured.
func (k Kubelet) Window() time.Duration { return k.h.o.Pauses.Measure }

// measureAll measures all guests periodically.
func (h *Host) measureAll(ctx context.Context) {
	for pause(ctx, h.o.Pauses.Measure) {
		for _, m := range h.all() {
			h.work.Go(m.measure)
		}
	}
}

// measureLimit is how long a guest may take to answer.
const measureLimit = 5 * time.Second

// measure records what a running guest uses.
func (m *microVM) measure() {
	vm, _ := m.running()
	if vm == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.h.ctx, measureLimit)
	defer cancel()
	got, err := vm.Stats(ctx)
	if err != nil {
		return // it shows as not measured
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vm == vm && got.UnixNano > m.samples[1].UnixNano {
		m.samples = [2]wire.Stats{m.samples[1], got}
	}
}

// measured reports whether the guest has been measured.
func (m *microVM) measured() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.samples[1].UnixNano != 0
}

// Stats implements kubelet.Backend and metricsapi.Source.
func (k Kubelet) Stats(_ context.Context, node string) (*stats.Summary, error) {
	if m := k.h.find(func(m *microVM) bool { return k.h.node(m.record) == node }); m != nil {
		return m.summary()
	}
	return nil, fmt.Errorf("node %s has no microVM here", node)
}

// summary returns the last measurement in the kubelet's format. It fails if no guest runs.
func (m *microVM) summary() (*stats.Summary, error) {
	if vm, _ := m.running(); vm == nil {
		return nil, fmt.Errorf("microVM %s does not run", m.record.ID)
	}
	m.mu.Lock()
	was, is := m.samples[0], m.samples[1]
	m.mu.Unlock()
	if is.UnixNano == 0 {
		return nil, fmt.Errorf("microVM %s was not measured yet", m.record.ID)
	}
	at := metav1.NewTime(time.Unix(0, is.UnixNano))
	span := uint64(0)
	if was.UnixNano != 0 {
		span = uint64(is.UnixNano - was.UnixNano)
	}
	pod := stats.PodStats{PodRef: stats.PodReference{
		Namespace: m.record.Namespace, Name: m.record.Name, UID: string(m.record.UID),
	}}
	var cpu, cpuWas, workingSet, usage, rss uint64
	for _, c := range is.Containers {
		before := uint64(0)
		for _, b := range was.Containers {
			if b.Name == c.Name && b.Started.Equal(c.Started) {
				before = b.CPUNanos
			}
		}
		pod.Containers = append(pod.Containers, stats.ContainerStats{
			Name: c.Name, StartTime: metav1.NewTime(c.Started), CPU: cpuStats(at, c.CPUNanos, before, span),
			Memory: memoryStats(at, c.Memory),
		})
		cpu, cpuWas = cpu+c.CPUNanos, cpuWas+before
		workingSet, usage, rss = workingSet+c.Memory.WorkingSet, usage+c.Memory.Usage, rss+c.Memory.RSS
	}
	pod.CPU = cpuStats(at, cpu, cpuWas, span)
	pod.Memory = memoryStats(at, wire.MemoryStats{WorkingSet: workingSet, Usage: usage, RSS: rss})
	pod.Network = &stats.NetworkStats{Time: at, InterfaceStats: stats.InterfaceStats{
		Name: "eth0", RxBytes: &is.Network.RxBytes, RxErrors: &is.Network.RxErrors, TxBytes: &is.Network.TxBytes,
		TxErrors: &is.Network.TxErrors,
	}}
	pod.EphemeralStorage = fsStats(at, is.Scratch)
	out := &stats.Summary{Pods: []stats.PodStats{pod}}
	out.Node = stats.NodeStats{
		NodeName: m.h.node(m.record), CPU: cpuStats(at, is.CPUNanos, was.CPUNanos, span),
		Memory: memoryStats(at, is.Memory), Network: pod.Network, Fs: pod.EphemeralStorage,
	}
	return out, nil
}

// cpuStats returns the CPU usage, with its rate if span, the time in nanoseconds since before was measured, is not 0.
func cpuStats(at metav1.Time, now, before, span uint64) *stats.CPUStats {
	s := &stats.CPUStats{Time: at, UsageCoreNanoSeconds: &now}
	if span > 0 && now >= before {
		rate := uint64(float64(now-before) / float64(span) * float64(time.Second))
		s.UsageNanoCores = &rate
	}
	return s
}

func memoryStats(at metav1.Time, m wire.MemoryStats) *stats.MemoryStats {
	s := &stats.MemoryStats{
		Time: at, UsageBytes: &m.Usage, WorkingSetBytes: &m.WorkingSet, RSSBytes: &m.RSS,
		PageFaults: &m.PageFaults, MajorPageFaults: &m.MajorPageFaults,
	}
	if m.Available > 0 {
		s.AvailableBytes = &m.Available
	}
	return s
}

func fsStats(at metav1.Time, f wire.FSStats) *stats.FsStats {
	return &stats.FsStats{
		Time: at, CapacityBytes: &f.Capacity, AvailableBytes: &f.Available, UsedBytes: &f.Used,
		Inodes: &f.Inodes, InodesFree: &f.InodesFree,
	}
}
