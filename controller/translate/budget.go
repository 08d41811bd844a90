package translate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// allowed returns how many nodes of a pool the budgets allow to be disrupted at the same time for a reason: the
// minimum over the active budgets that name the reason or none, with percentages of total rounded up. Budgets that
// cannot be read allow nothing, for any reason (karpenter.sh/docs/concepts/disruption). shown is the wall-clock time
// of the schedules.
func allowed(budgets []karpv1.Budget, reason karpv1.DisruptionReason, shown time.Time, total int) (int, error) {
	_, least, err := strictest(budgets, reason, shown, total)
	return least, err
}

// strictest is allowed with the index of the deciding budget, -1 if the default decides or no budget is active.
func strictest(budgets []karpv1.Budget, reason karpv1.DisruptionReason, shown time.Time, total int) (at, least int,
	err error,
) {
	at, least = -1, math.MaxInt32
	if budgets == nil { // the default of karpenter.sh/v1
		least, err = scaled("10%", total)
		return at, least, err
	}
	for i := range budgets {
		b := &budgets[i]
		n, err := budgetNodes(b, shown, total)
		if err != nil {
			return -1, 0, fmt.Errorf("spec.disruption.budgets[%d].%w", i, err)
		}
		if (len(b.Reasons) == 0 || slices.Contains(b.Reasons, reason)) && n < least {
			at, least = i, n
		}
	}
	return at, least, nil
}

// Strictest names the budget of a pool that allows the fewest disruptions for a reason now, such as
// "spec.disruption.budgets[0] (nodes: 10%)", and returns that number; "" if none sets a limit or the budgets cannot
// be read.
func Strictest(np *karpv1.NodePool, reason karpv1.DisruptionReason, now time.Time, nodes int) (string, int) {
	annotations, err := ReadDisruptionAnnotations(np)
	if err != nil {
		return "", 0
	}
	at, least, err := strictest(np.Spec.Disruption.Budgets, reason, wall(now, annotations.zone), nodes)
	switch {
	case err != nil || least == math.MaxInt32:
		return "", 0
	case at < 0:
		return "the default budget (nodes: 10%)", least
	}
	b := &np.Spec.Disruption.Budgets[at]
	text := "nodes: " + b.Nodes
	for i, r := range b.Reasons {
		if i == 0 {
			text += ", reasons:"
		}
		text += " " + string(r)
	}
	if b.Schedule != nil && b.Duration != nil {
		text += fmt.Sprintf(", schedule: %s for %s", *b.Schedule, b.Duration.Duration)
	}
	return fmt.Sprintf("spec.disruption.budgets[%d] (%s)", at, text), least
}

// budgetNodes returns what one budget allows now; no limit while it is not active.
func budgetNodes(b *karpv1.Budget, shown time.Time, total int) (int, error) {
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
	s, err := readSchedule(*b.Schedule, b.Duration.Duration)
	if err != nil {
		return 0, fmt.Errorf("schedule %q: %w", *b.Schedule, err)
	}
	if _, in := s.begun(shown); !in {
		return math.MaxInt32, nil
	}
	return nodes, nil
}

// scaled parses a number or a percentage of total, rounded up.
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

// AllowedDisruptions returns how many of a pool's nodes may be disrupted at the same time for a reason, including
// those that already are; 0 if its budgets or annotations cannot be read, or its disruption window for that reason is
// closed.
func AllowedDisruptions(np *karpv1.NodePool, reason karpv1.DisruptionReason, now time.Time, nodes int) int {
	annotations, err := ReadDisruptionAnnotations(np)
	if err != nil {
		return 0
	}
	shown := wall(now, annotations.zone)
	n, err := allowed(np.Spec.Disruption.Budgets, reason, shown, nodes)
	if open, _ := inWindows(annotations.windows, shown); err != nil || len(annotations.windows) > 0 && !open &&
		annotations.binds.Binds(model.Method(reason)) {
		return 0
	}
	return n
}
