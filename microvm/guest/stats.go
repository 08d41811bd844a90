package guest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

func (p *pod) stats() (wire.Stats, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return wire.Stats{}, err
	}
	s := wire.Stats{
		UnixNano: time.Now().UnixNano(),
		CPUNanos: counter(filepath.Join(cgroupDir, "cpu.stat"), "usage_usec") * 1000, Processes: uint64(info.Procs),
	}
	if p.host != nil {
		s.CPUNanos, s.Memory, s.Processes = p.host.usage()
	} else {
		s.Memory = guestMemory()
		s.Memory.Total = info.Totalram * uint64(info.Unit)
	}
	var fs unix.Statfs_t
	if unix.Statfs(enter.ScratchDir, &fs) == nil {
		size := uint64(fs.Bsize)
		s.Scratch = wire.FSStats{
			Capacity: fs.Blocks * size, Available: fs.Bavail * size,
			Used: (fs.Blocks - fs.Bfree) * size, Inodes: fs.Files, InodesFree: fs.Ffree,
		}
	}
	net := func(name string) uint64 { return number("/sys/class/net/" + nic + "/statistics/" + name) }
	s.Network = wire.NetworkStats{
		RxBytes: net("rx_bytes"), TxBytes: net("tx_bytes"), RxErrors: net("rx_errors"),
		TxErrors: net("tx_errors"),
	}
	for _, c := range p.all() {
		if r, err := c.running(); err == nil {
			s.Containers = append(s.Containers, r.stats())
		}
	}
	return s, nil
}

func (r *run) stats() wire.ContainerStats {
	out := wire.ContainerStats{Name: r.c.spec.Name, Started: r.began}
	out.CPUNanos, out.Memory = usage(r.cgroup, r.version1)
	return out
}

// guestMemory returns the whole guest's memory, from /proc/meminfo.
func guestMemory() wire.MemoryStats {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return wire.MemoryStats{}
	}
	v := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			v[strings.TrimSuffix(f[0], ":")] = n << 10
		}
	}
	return wire.MemoryStats{
		Available: v["MemAvailable"], Usage: v["MemTotal"] - v["MemFree"],
		WorkingSet: v["MemTotal"] - min(v["MemTotal"], v["MemAvailable"]), RSS: v["AnonPages"],
	}
}
