package kube

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// allowed is how many of a pool's machines the budgets let go at the same time for a reason: the least of the active
// budgets that name the reason or none, percentages of total rounded up. Budgets that cannot be read allow nothing, for
// any reason (reference karpenter.md §1.5).
func allowed(budgets []karpv1.Budget, reason karpv1.DisruptionReason, now time.Time, total int) (int, error) {
	if budgets == nil {
		budgets = []karpv1.Budget{{Nodes: "10%"}} // the default of karpenter.sh/v1
	}
	least := math.MaxInt32
	for i := range budgets {
		b := &budgets[i]
		n, err := budgetNodes(b, now, total)
		if err != nil {
			return 0, fmt.Errorf("spec.disruption.budgets[%d].%w", i, err)
		}
		if len(b.Reasons) == 0 || slices.Contains(b.Reasons, reason) {
			least = min(least, n)
		}
	}
	return least, nil
}

// budgetNodes is what one budget allows now; no bound while it is not active.
func budgetNodes(b *karpv1.Budget, now time.Time, total int) (int, error) {
	nodes, err := scaled(b.Nodes, total)
	if err != nil {
		return 0, err
	}
	if b.Schedule == nil && b.Duration == nil {
		return nodes, nil
	}
	if b.Schedule == nil || b.Duration == nil {
		return 0, fmt.Errorf("schedule: must be set together with duration")
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + *b.Schedule)
	if err != nil {
		return 0, fmt.Errorf("schedule %q: %w", *b.Schedule, err)
	}
	now = now.UTC()
	if schedule.Next(now.Add(-b.Duration.Duration)).After(now) {
		return math.MaxInt32, nil
	}
	return nodes, nil
}

// scaled reads a number or a percentage of total, rounded up.
func scaled(text string, total int) (int, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("nodes %q: want a number or a percentage", text)
	}
	if percent {
		n = (n*total + 99) / 100
	}
	return n, nil
}

// NextWindow is when the next window of a pool's budgets opens or closes, zero if none does.
func NextWindow(budgets []karpv1.Budget, now time.Time) time.Time {
	var next time.Time
	now = now.UTC()
	for i := range budgets {
		b := &budgets[i]
		if b.Schedule == nil || b.Duration == nil {
			continue
		}
		schedule, err := cron.ParseStandard("TZ=UTC " + *b.Schedule)
		if err != nil {
			continue // the pool says so in NotReady
		}
		at := schedule.Next(now)
		if opened := schedule.Next(now.Add(-b.Duration.Duration)); !opened.After(now) {
			if closes := opened.Add(b.Duration.Duration); closes.After(now) {
				at = closes
			}
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) { // zero: a day that never comes, such as 30 February
			next = at
		}
	}
	return next
}
