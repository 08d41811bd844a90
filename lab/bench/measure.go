package main

import (
	"runtime"
	"syscall"
	"time"
)

// usage is the resource usage of a piece of work. CPU covers all threads of the process, including garbage
// collection; Karpenter uses several threads at once, the engine one.
type usage struct {
	wall, cpu time.Duration
	bytes     uint64 // allocated
	objects   uint64
}

func (u usage) plus(o usage) usage {
	return usage{u.wall + o.wall, u.cpu + o.cpu, u.bytes + o.bytes, u.objects + o.objects}
}

// measure runs f once, on a freshly collected heap.
func measure(f func()) usage {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := processCPU(), time.Now()
	f()
	u := usage{wall: time.Since(start), cpu: processCPU() - cpu}
	runtime.ReadMemStats(&after)
	u.bytes, u.objects = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	return u
}

// best returns the usage of the run with the least CPU: noise from other work on the machine only ever adds.
func best(runs int, f func()) usage {
	least := measure(f)
	for range runs - 1 {
		if u := measure(f); u.cpu < least.cpu {
			least = u
		}
	}
	return least
}

func processCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
