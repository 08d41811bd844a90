package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// usage is a controller's resource usage so far.
type usage struct {
	cpuSeconds float64
	readMB     float64 // in 2^20 bytes, mostly from the API server and AWS
}

func (u usage) add(v usage) usage { return usage{u.cpuSeconds + v.cpuSeconds, u.readMB + v.readMB} }

func (u usage) since(v usage) usage { return usage{u.cpuSeconds - v.cpuSeconds, u.readMB - v.readMB} }

// usageOf returns the usage of a process so far.
func usageOf(pid int) (usage, error) {
	seconds, err := cpuSeconds(pid)
	if err != nil {
		return usage{}, err
	}
	// rchar counts the bytes that read(2) returned, including from sockets, which Go reads that way (proc_pid_io(5)).
	bytes, err := procField(pid, "io", "rchar:")
	return usage{seconds, bytes / (1 << 20)}, err
}

// cpuSeconds returns the user and system time of a process so far (proc_pid_stat(5), fields 14 and 15, in 1/100 s).
func cpuSeconds(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(data), ") ") // the command's name may contain anything
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, err
}

// peakMB returns the peak resident set size of a process so far, in 2^20 bytes (proc_pid_status(5), VmHWM).
func peakMB(pid int) (float64, error) {
	kib, err := procField(pid, "status", "VmHWM:")
	return kib / 1024, err
}

// procField returns the number after a name in a file of a process in /proc.
func procField(pid int, file, name string) (float64, error) {
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut("\n"+string(data), "\n"+name)
	if !ok {
		return 0, fmt.Errorf("%s has no %s", path, name)
	}
	line, _, _ := strings.Cut(after, "\n")
	return strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 64)
}

// loadAverage returns the load average over the last minute, or -1 if the system does not provide it.
func loadAverage() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(data), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return load
}
