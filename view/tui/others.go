package tui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/view"
)

// poolColumns returns the columns of NodePools; priced is whether the price of one is known.
func poolColumns(s *scene, priced bool) []column[view.PoolRow] {
	out := []column[view.PoolRow]{
		{
			title: "POOL", min: 14, fair: 22, max: 32, rank: 0,
			text: func(_ *scene, r *view.PoolRow) string { return cmp.Or(r.Name, view.NoPool) },
		},
		{
			title: "NODES", min: 5, fair: 6, rank: 1, right: true,
			text: func(_ *scene, r *view.PoolRow) string { return strconv.Itoa(r.Rows) },
		},
	}
	for i, name := range s.resources {
		out = append(out, use(i, name, 4+3*i,
			func(r *view.PoolRow) (*view.Amounts, *view.Amounts) { return &r.Requests, &r.Sums.Allocatable }))
	}
	out = append(out, priceColumn(s, priced, 9, 2, "", func(s *scene, r *view.PoolRow) string {
		return s.price(r.Price, r.Price > 0 || r.Unpriced == 0)
	})...)
	return append(out,
		column[view.PoolRow]{
			title: "LIMITS", min: 14, fair: 30, max: 60, rank: 5,
			text: func(_ *scene, r *view.PoolRow) string { return limits(r) }, tone: limitTone,
		},
		column[view.PoolRow]{
			title: "BUDGET E/D/U", min: 12, rank: 6,
			text: func(_ *scene, r *view.PoolRow) string { return allowed(r) },
		},
		column[view.PoolRow]{
			title: "BUDGETS", min: 10, fair: 24, max: 60, rank: 8,
			text: func(_ *scene, r *view.PoolRow) string { return cmp.Or(strings.Join(r.Budgets, ", "), "-") },
		},
		column[view.PoolRow]{
			title: "WEIGHT", min: 6, rank: 9, right: true, wide: true,
			text: func(_ *scene, r *view.PoolRow) string { return weight(r) },
		},
		column[view.PoolRow]{
			title: "STATUS", min: 8, fair: 20, max: 100, rank: 3,
			text: func(_ *scene, r *view.PoolRow) string { return poolStatus(r) },
		},
	)
}

func limits(r *view.PoolRow) string {
	var out []string
	for _, l := range r.Limits {
		out = append(out, fmt.Sprintf("%s %s/%s", l.Resource, l.Used, l.Most))
	}
	return cmp.Or(strings.Join(out, " "), "-")
}

// limitTone warns of a limit that is nearly reached; its numbers say so too.
func limitTone(r *view.PoolRow) tone {
	for _, l := range r.Limits {
		if l.UsedShare > 0.9 {
			return bad
		}
	}
	return plain
}

// allowed returns how many nodes may be disrupted now, for each reason.
func allowed(r *view.PoolRow) string {
	if r.Name == "" {
		return "-"
	}
	return fmt.Sprintf("%d/%d/%d", r.Allowed[0], r.Allowed[1], r.Allowed[2])
}

func weight(r *view.PoolRow) string {
	if r.Name == "" {
		return "-"
	}
	return strconv.Itoa(r.Weight)
}

func poolStatus(r *view.PoolRow) string {
	switch {
	case r.Name == "":
		return "-"
	case r.Ready:
		return "Ready"
	}
	return strings.TrimSuffix("NotReady: "+r.Problem, ": ")
}

// podColumns returns the columns of pods: why they are pending if waiting is set, else their status.
func podColumns(s *scene, waiting bool) []column[view.PodRow] {
	out := []column[view.PodRow]{
		{
			title: "POD", min: 20, fair: 28, max: 60, rank: 0, sort: "pod",
			text: func(_ *scene, r *view.PodRow) string { return r.Key() },
		},
	}
	for i, name := range s.resources {
		out = append(out, column[view.PodRow]{
			title: strings.ToUpper(name), min: 6, fair: 8, rank: 2 + i, right: true, sort: name,
			text: func(_ *scene, r *view.PodRow) string { return view.Amount(name, r.Requests[i]) },
		})
	}
	out = append(out, column[view.PodRow]{
		title: "AGE", min: 5, fair: 6, rank: 3, right: true, sort: view.SortAge,
		text: func(s *scene, r *view.PodRow) string { return view.Age(s.now, r.Created) },
	})
	if waiting {
		return append(out, column[view.PodRow]{
			title: "WHY", min: 20, fair: 30, max: 1000, rank: 1,
			text: func(s *scene, r *view.PodRow) string { return s.language.Say(r.Why) },
		})
	}
	return append(out, column[view.PodRow]{title: "STATUS", min: 11, rank: 1, text: func(_ *scene, r *view.PodRow) string {
		if r.Deleting {
			return "Terminating"
		}
		return r.Phase.String()
	}})
}
