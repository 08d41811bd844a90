package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// measurement is the compared part of the performance suite's reports.
type measurement struct {
	Name        string        `json:"test_name"`
	Nodes       int           `json:"total_nodes"`
	Took        time.Duration `json:"total_time"`
	CPUUsed     float64       `json:"total_reserved_cpu_utilization"`
	MemoryUsed  float64       `json:"total_reserved_memory_utilization"`
	P95MemoryMB float64       `json:"karpenter_p95_memory_mb"`
	AvgCPUCores float64       `json:"karpenter_avg_cpu_cores"`
	Samples     int           `json:"metrics_sample_count"`
}

// measurements reads the reports that a spec wrote.
func measurements(dir string) ([]measurement, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_performance_report.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("the suite left no performance report in " + dir)
	}
	var all []measurement
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var m measurement
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// measured fails if the suite has no measurements of the controller: all its limits on memory and CPU then hold
// trivially.
func measured(dir string) error {
	all, err := measurements(dir)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Samples == 0 || m.P95MemoryMB == 0 {
			return fmt.Errorf("%s: the suite measured neither memory nor CPU of the controller, so its limits say nothing",
				m.Name)
		}
	}
	return nil
}

// performanceTableOf returns a table with a line for each phase of each spec.
func performanceTableOf(results []result) (string, error) {
	var b strings.Builder
	b.WriteString("| spec | phase | result | seconds | nodes | CPU asked for | memory asked for | controller: p95 " +
		"memory, average CPU |\n")
	b.WriteString("|---|---|---|---:|---:|---:|---:|---|\n")
	for _, r := range results {
		all, err := measurements(r.Logs)
		if err != nil {
			return "", err
		}
		for _, m := range all {
			fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %d | %.0f %% | %.0f %% | %.0f MB, %.2f cores |\n", r.Spec, m.Name,
				verdict(r.Passed),
				m.Took.Seconds(), m.Nodes, 100*m.CPUUsed, 100*m.MemoryUsed, m.P95MemoryMB, m.AvgCPUCores)
		}
	}
	return b.String(), nil
}
