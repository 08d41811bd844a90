package trace

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// format parses a row: a pod and the number of pods like it.
type format func(row []string) (Pod, int, error)

// errNoPod is returned by a format for a row that does not describe a pod which ran.
var errNoPod = errors.New("no pod")

// formatOf detects the format from the line that names the columns.
func formatOf(head []string) (format, error) {
	column := map[string]int{}
	for i, name := range head {
		column[strings.ToLower(strings.TrimSpace(name))] = i
	}
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { _, ok := column[n]; return !ok })
	}
	switch {
	case has("cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time"):
		return openb(column), nil
	case has("task_create_time", "task_end_time", "status", "number_of_cpus_requested_per_instance_in_the_task",
		"normalized_memory_requested_per_instance_in_the_task"):
		return alibaba2017(column), nil
	case has("start", "cpu", "memory") && (has("life") || has("end")):
		return own(column), nil
	}
	return nil, fmt.Errorf("its first line names the columns %s: want at least start, life (or end), cpu and memory",
		strings.Join(head, ", "))
}

// openb is alibaba/clusterdata, cluster-trace-gpu-v2023. A fraction of a GPU counts as a whole one.
func openb(column map[string]int) format {
	return func(row []string) (Pod, int, error) {
		c := cells{row: row, column: column}
		p := Pod{
			CPU: int64(c.number("cpu_milli")), Memory: int64(c.number("memory_mib")) << 20,
			GPUs: int64(c.number("num_gpu")),
		}
		p.Start = c.seconds("creation_time")
		p.Life = c.seconds("deletion_time") - p.Start
		return p, 1, c.err
	}
}

// alibaba2017 is the batch_task table of the Alibaba cluster trace of 2017: one pod for each task that terminated.
// CPU is in hundredths of a core; memory is a fraction of a machine's, which is taken to be 256 GiB.
func alibaba2017(column map[string]int) format {
	const cpu, memory = "number_of_cpus_requested_per_instance_in_the_task",
		"normalized_memory_requested_per_instance_in_the_task"
	return func(row []string) (Pod, int, error) {
		c := cells{row: row, column: column}
		if c.text("status") != "Terminated" || c.text(cpu) == "" || c.text(memory) == "" {
			return Pod{}, 0, errNoPod
		}
		p := Pod{CPU: int64(c.number(cpu) * 10), Memory: int64(math.Round(c.number(memory) * (256 << 30)))}
		p.Start = c.seconds("task_create_time")
		p.Life = c.seconds("task_end_time") - p.Start
		return p, 1, c.err
	}
}

// own is the format that Read describes.
func own(column map[string]int) format {
	_, ends := column["end"]
	return func(row []string) (Pod, int, error) {
		c := cells{row: row, column: column}
		p := Pod{
			CPU: int64(math.Round(c.quantity("cpu") * 1000)), Memory: int64(math.Round(c.quantity("memory"))),
			Start: c.seconds("start"),
		}
		if ends {
			p.Life = c.seconds("end") - p.Start
		} else {
			p.Life = c.seconds("life")
		}
		count := 1
		if c.text("gpus") != "" {
			p.GPUs = int64(c.number("gpus"))
		}
		if c.text("count") != "" {
			count = int(c.number("count"))
		}
		return p, count, c.err
	}
}

// cells reads a row by column name, and keeps the first error.
type cells struct {
	row    []string
	column map[string]int
	err    error
}

func (c *cells) text(name string) string {
	i, ok := c.column[name]
	if !ok || i >= len(c.row) {
		return ""
	}
	return strings.TrimSpace(c.row[i])
}

func (c *cells) fail(name, want string) float64 {
	if c.err == nil {
		c.err = fmt.Errorf("column %s: %q is not %s", name, c.text(name), want)
	}
	return 0
}

func (c *cells) number(name string) float64 {
	v, err := strconv.ParseFloat(c.text(name), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1<<50 {
		return c.fail(name, "a number")
	}
	return v
}

func (c *cells) seconds(name string) time.Duration {
	const most = 100 * 365 * 24 * 3600
	v := c.number(name)
	if math.Abs(v) > most {
		return time.Duration(c.fail(name, "a number of seconds within a hundred years"))
	}
	return time.Duration(math.Round(v * float64(time.Second)))
}

// units are the suffixes of Kubernetes quantities.
var units = map[string]float64{
	"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

func (c *cells) quantity(name string) float64 {
	text := c.text(name)
	digits := strings.TrimRight(text, "mkMGTKi")
	unit, ok := 1.0, true
	if suffix := text[len(digits):]; suffix != "" {
		unit, ok = units[suffix]
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || v < 0 || math.IsNaN(v) || v*unit > 1<<50 {
		return c.fail(name, "an amount such as 0.5, 500m or 2Gi")
	}
	return v * unit
}
