package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/view"
)

// record is a node as the page receives it: an array of
//
// 0 ID, 1 name, 2 index of its kind, 3 status, 4 created, 5 seconds until it was ready
// 6 price in millionths of a dollar an hour, 7 requests, 8 allocatable, both in the order of the resources, and GPUs
// and the addresses of pods
// 9 its pods, a letter each, 10 why, a list of sentences, 11 its NodeClaim, 12 the pod whose microVM it is
// 13 when its status began, if it is waiting, 14 whether there is a Node
//
// Times are seconds since 1970. A pod's letter is r if it is running, p if it is not running yet, t if it is being
// deleted; the letters of pods in kube-system are upper case.
type record struct {
	id   uint64
	json []byte
}

// kind is what many nodes have in common; a record refers to it by its index.
type kind struct {
	Pool     string            `json:"pool"`
	Type     string            `json:"type"`
	Capacity string            `json:"capacity"`
	Zone     string            `json:"zone"`
	Labels   map[string]string `json:"labels"`
}

// newKind escapes what anyone may have written, and leaves out the hostname label, which differs for each node.
func newKind(b *view.Box) kind {
	labels := make(map[string]string, len(b.Labels))
	for key, value := range b.Labels {
		labels[view.Escape(key)] = view.Escape(value)
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { return key == corev1.LabelHostname })
	return kind{view.Escape(b.Pool), view.Escape(b.Type), view.Escape(b.CapacityType), view.Escape(b.Zone), labels}
}

func newRecord(b *view.Box, kindIndex, resources int) (*record, error) {
	why := []string{}
	for _, text := range b.Why {
		why = append(why, view.Escape(text))
	}
	var since int64
	if b.Status.Waits() {
		since = unix(b.Since)
	}
	text, err := json.Marshal([]any{
		b.ID, view.Escape(b.Name), kindIndex, b.Status, unix(b.Created), int(b.ReadyIn.Seconds()), b.Price,
		shown(&b.Requests, resources), shown(&b.Allocatable, resources), letters(b.Pods), why, view.Escape(b.Claim),
		view.Escape(b.MicroVM), since, b.HasNode,
	})
	if err != nil {
		return nil, fmt.Errorf("write node %s: %w", b.Name, err)
	}
	return &record{b.ID, text}, nil
}

// shown returns the amounts that the page shows: of the resources, then GPUs and addresses.
func shown(a *view.Amounts, resources int) []int64 {
	return append(a[:resources:resources], a[view.GPUs], a[view.Addresses])
}

func letters(cells []view.Cell) string {
	out := make([]byte, len(cells))
	for i, c := range cells {
		switch {
		case c.Deleting:
			out[i] = 't'
		case c.Phase == view.Running:
			out[i] = 'r'
		default:
			out[i] = 'p'
		}
		if c.System {
			out[i] -= 'a' - 'A'
		}
	}
	return string(out)
}

// unix returns seconds since 1970, 0 for the zero time.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// totals are a cluster's sums as the page receives them.
type totals struct {
	Rows        int      `json:"nodes"`
	OnTheirWay  int      `json:"onTheirWay"`
	NotReady    int      `json:"notReady"`
	Going       int      `json:"going"`
	Unpriced    int      `json:"unpriced"`
	Price       int64    `json:"price"` // millionths of a dollar an hour
	Bound       int      `json:"bound"`
	Running     int      `json:"running"`
	Waiting     int      `json:"waiting"`
	Requests    []int64  `json:"requests"`
	Allocatable []int64  `json:"allocatable"`
	Notes       []string `json:"notes,omitempty"`
}

func newTotals(t *view.Totals, resources int) totals {
	out := totals{
		Rows: t.Rows, OnTheirWay: t.OnTheirWay, NotReady: t.NotReady, Going: t.Going, Unpriced: t.Unpriced,
		Price: t.Price,
		Bound: t.Bound, Running: t.Running, Waiting: t.Waiting, Requests: t.Requests[:resources],
		Allocatable: t.Allocatable[:resources],
	}
	for _, note := range t.Notes {
		out.Notes = append(out.Notes, view.Escape(note))
	}
	return out
}
