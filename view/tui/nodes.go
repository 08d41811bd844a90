package tui

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/view"
)

// nodeColumns returns the columns of nodes; priced is whether the price of one is known.
func nodeColumns(s *scene, labels []string, priced bool) []column[view.NodeRow] {
	out := []column[view.NodeRow]{
		{
			title: "NODE", min: 15, fair: 24, max: 44, rank: 0, sort: view.FieldNode, keepBeginning: true,
			text: func(_ *scene, r *view.NodeRow) string { return r.Name },
		},
		{
			title: "POOL", min: 10, fair: 16, max: 24, rank: 8, sort: view.FieldPool,
			text: func(_ *scene, r *view.NodeRow) string { return cmp.Or(r.Pool, "-") },
		},
		{
			title: "TYPE", min: 12, fair: 14, max: 18, rank: 4, sort: view.FieldType,
			text: func(_ *scene, r *view.NodeRow) string { return cmp.Or(r.Type, "-") },
		},
		{
			title: "CAP", min: 4, rank: 6, sort: view.FieldCapacity,
			text: func(_ *scene, r *view.NodeRow) string { return capacity(r) },
		},
		{
			title: "ZONE", min: 10, fair: 10, max: 16, rank: 9, sort: view.FieldZone,
			text: func(_ *scene, r *view.NodeRow) string { return cmp.Or(r.Zone, "-") },
		},
	}
	for i, name := range s.resources {
		rank := 2 + 3*min(i, 1) // the first matters most
		out = append(out, use(i, name, rank,
			func(r *view.NodeRow) (*view.Amounts, *view.Amounts) { return &r.Requests, &r.Allocatable }))
	}
	out = append(out, column[view.NodeRow]{
		title: "PODS", min: 4, fair: 5, rank: 5, right: true, sort: view.SortPods,
		text: func(_ *scene, r *view.NodeRow) string { return strconv.Itoa(r.Pods) },
	})
	out = append(out, priceColumn(s, priced, 8, 3, view.SortPrice,
		func(s *scene, r *view.NodeRow) string { return s.price(r.Price, r.Priced()) })...)
	out = append(out, []column[view.NodeRow]{
		{
			title: "AGE", min: 5, fair: 6, rank: 7, right: true, sort: view.SortAge,
			text: func(s *scene, r *view.NodeRow) string { return view.Age(s.now, r.Created) },
		},
		{
			title: "READY-IN", min: 8, rank: 10, right: true, wide: true, sort: view.SortReadyIn,
			text: func(_ *scene, r *view.NodeRow) string { return readyIn(r) },
		},
		{title: "STATUS", min: 12, fair: 15, rank: 1, sort: view.FieldStatus, text: statusText, tone: statusTone},
		{
			title: "WHY", min: 12, fair: 30, max: 400, rank: 11, wide: true,
			text: func(s *scene, r *view.NodeRow) string { return s.language.Say(cmp.Or(strings.Join(r.Why, "; "), "-")) },
		},
	}...)
	for _, key := range labels {
		title := key[strings.LastIndex(key, "/")+1:]
		out = append(out, column[view.NodeRow]{
			title: strings.ToUpper(title), min: max(6, min(12, len(title)+1)), fair: 16, rank: 7, sort: view.ParseSort(key).Key,
			text: func(s *scene, r *view.NodeRow) string { return labelText(s, r, key) },
		})
	}
	return out
}

// labelText returns a label's value, or one of those that eks-node-viewer computes.
func labelText(s *scene, r *view.NodeRow, key string) string {
	if v, ok := r.Labels[key]; ok {
		return v
	}
	by := view.ParseSort(key).Key
	if by == view.SortAge {
		return view.Age(s.now, r.Created)
	}
	for i, name := range s.resources {
		if name == by && r.Allocatable[i] > 0 {
			return view.Percent(view.Share(r.Requests[i], r.Allocatable[i]))
		}
	}
	return "-"
}

// capacity abbreviates the capacity type, in the letters that people know it by.
func capacity(r *view.NodeRow) string {
	switch {
	case r.MicroVM != "":
		return "vm"
	case r.CapacityType == "on-demand":
		return "od"
	case r.CapacityType == "reserved":
		return "rsv"
	case r.CapacityType == "fargate":
		return "fg"
	}
	return cmp.Or(r.CapacityType, "-")
}

func readyIn(r *view.NodeRow) string {
	if r.ReadyIn <= 0 {
		return "-"
	}
	return r.ReadyIn.Round(time.Second).String()
}

// statusText returns the status and, if it is a waiting one, how long it has lasted.
func statusText(s *scene, r *view.NodeRow) string {
	if r.Status.Waits() {
		return string(r.Status) + "/" + view.Age(s.now, r.Since)
	}
	return string(r.Status)
}

func statusTone(r *view.NodeRow) tone {
	switch r.Status {
	case view.StatusReady:
		return good
	case view.StatusNotReady, view.StatusInterrupted:
		return bad
	}
	return middling
}
