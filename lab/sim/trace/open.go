package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// FolderVariable names the environment variable that holds the folder of the public traces.
const FolderVariable = "NODELESS_TRACES"

// Named maps the names of the public traces that Open knows to their files.
var Named = map[string]string{
	"openb":       "openb_pod_list_default.csv.gz",
	"alibaba2017": "alibaba2017_batch_task.csv.gz",
}

// Open reads a trace from a file, or, for one of the names in Named, from its file in the folder. For a name of
// Generated it returns a day of that workload. The first line determines the format: the openb pod list or the
// batch_task table of 2017 of alibaba/clusterdata, or our own (see Read). A file may be compressed with gzip.
func Open(name, folder string) (*Trace, error) {
	if slices.Contains(Generated(), name) {
		return Generate(name, 1, 24*time.Hour)
	}
	path := name
	if file, ok := Named[name]; ok {
		path = filepath.Join(folder, file)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	defer f.Close()
	t, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", path, err)
	}
	t.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".gz"), ".csv")
	return t, nil
}

// Read reads a trace as CSV. A file in our own format begins with a line that names its columns:
//
//	start   seconds since any fixed time
//	end     seconds; or instead:
//	life    how long the pod runs, seconds
//	cpu     cores, such as 0.5, or 500m
//	memory  bytes, or with a unit such as 2Gi
//	gpus    whole GPUs; may be left out
//	count   number of equal pods; may be left out
func Read(r io.Reader) (*Trace, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReader(z)
	}
	rows := csv.NewReader(b)
	rows.FieldsPerRecord, rows.ReuseRecord, rows.TrimLeadingSpace, rows.Comment = -1, true, true, '#'
	head, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("it is empty: want a first line that names the columns, such as start,life,cpu,memory")
	}
	if err != nil {
		return nil, err
	}
	format, err := formatOf(head)
	if err != nil {
		return nil, err
	}
	t := &Trace{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := t.add(format, row); err != nil {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if len(t.Pods) == 0 {
		return nil, fmt.Errorf("it has no pod that ran")
	}
	return t.sorted(), nil
}

// mostPods is the maximum number of pods of a trace: each one is simulated.
const mostPods = 20_000_000

func (t *Trace) add(format format, row []string) error {
	p, count, err := format(row)
	if errors.Is(err, errNoPod) {
		t.Skipped++
		return nil
	}
	if err == nil {
		err = p.valid()
	}
	if err != nil {
		return err
	}
	if count < 0 || count > mostPods-len(t.Pods) {
		return fmt.Errorf("more than %d pods", mostPods)
	}
	for range count {
		t.Pods = append(t.Pods, p)
	}
	return nil
}
