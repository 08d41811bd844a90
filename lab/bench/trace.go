package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// trace is a public list of requests. See the README of its folder for the sources.
type trace struct {
	name      string
	file      string
	catalogue string
	pod       func(cell func(column int) float64) (cpuMilli, memoryBytes, gpus int64)
	wanted    func(row []string) bool
}

// The columns are those of the files. A fraction of a GPU counts as a whole one: the engine does not share GPUs. The
// memory of alibaba2017 is a fraction of a machine's, which is taken to be 256 GiB.
var traces = []trace{
	{
		name: "openb", file: "openb_pod_list_default.csv.gz", catalogue: "cmr", wanted: openbRow,
		pod: func(cell func(int) float64) (int64, int64, int64) { return int64(cell(1)), int64(cell(2)) << 20, 0 },
	},
	{
		name: "openb with GPUs", file: "openb_pod_list_default.csv.gz", catalogue: "cmrgp", wanted: openbRow,
		pod: func(cell func(int) float64) (int64, int64, int64) {
			return int64(cell(1)), int64(cell(2)) << 20, int64(cell(3))
		},
	},
	{
		name: "alibaba2017", file: "alibaba2017_batch_task.csv.gz", catalogue: "cmr",
		wanted: func(row []string) bool {
			return len(row) >= 8 && row[5] == "Terminated" && row[6] != "" && row[7] != ""
		},
		pod: func(cell func(int) float64) (int64, int64, int64) {
			return int64(cell(6) * 10), int64(math.Round(cell(7) * (256 << 30))), 0
		},
	},
}

func openbRow(row []string) bool { return len(row) >= 4 && strings.HasPrefix(row[0], "openb") }

// read returns the requests of the trace's rows, in the order of the file.
func (t *trace) read(folder string) ([]corev1.ResourceList, error) {
	f, err := os.Open(filepath.Join(folder, t.file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", f.Name(), err)
	}
	rows := csv.NewReader(z)
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	var out []corev1.ResourceList
	for line := 1; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("trace %s: %w", f.Name(), err)
		}
		if !t.wanted(row) {
			continue
		}
		var bad error
		cpu, memory, gpus := t.pod(func(column int) float64 {
			v, err := strconv.ParseFloat(row[column], 64)
			if err != nil || v < 0 {
				bad = fmt.Errorf("trace %s, line %d, column %d: %q is not an amount", f.Name(), line, column+1, row[column])
			}
			return v
		})
		if bad != nil {
			return nil, bad
		}
		out = append(out, amounts(cpu, memory, gpus))
	}
}

// podsOf returns the first n rows of a trace as pods, repeated as needed. With mix, a fifth of the pods each has one
// kind of the constraints of Karpenter's benchmark.
func podsOf(rows []corev1.ResourceList, n int, mix bool) []*corev1.Pod {
	w := newWorkload()
	for i := range n {
		k := generic
		if mix {
			k = kinds[i%len(kinds)]
		}
		w.add(k, rows[i%len(rows)])
		if !mix {
			w.pods[i].Labels = nil // pods that no selector matches are equal if their requests are
		}
	}
	return w.pods
}
