package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// cpuSeconds is the user and system time of a process so far (proc_pid_stat(5), fields 14 and 15, in 1/100 s).
func cpuSeconds(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(data), ") ") // the command's name may hold anything
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

// peakMB is the largest resident size of a process so far, in 2^20 bytes (proc_pid_status(5), VmHWM).
func peakMB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(data), "\nVmHWM:")
	size, _, ok := strings.Cut(after, "kB")
	if !ok {
		return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
	}
	kib, err := strconv.ParseFloat(strings.TrimSpace(size), 64)
	return kib / 1024, err
}

// loadAverage is how many processes of this machine wanted a CPU over the last minute; -1 if the system does not say.
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
