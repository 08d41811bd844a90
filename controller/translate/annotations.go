package translate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Annotations on a NodePool. All but AnnotationAhead extend spec.disruption.
const (
	ownPrefix = "nodeless.sh/"
	// AnnotationTimeZone is the IANA time zone of budgets[].schedule and of AnnotationWindows.
	AnnotationTimeZone = ownPrefix + "disruption-time-zone"
	// AnnotationWindows are the times at which nodes may be disrupted: "cron duration; cron duration".
	AnnotationWindows = ownPrefix + "disruption-windows"
	// AnnotationWindowsFor are the reasons that the windows apply to, as in budgets[].reasons; default all.
	AnnotationWindowsFor = ownPrefix + "disruption-windows-for"
	// AnnotationMinimumSaving is what consolidation must save per hour for each node it removes: dollars, or percent of
	// the node's price.
	AnnotationMinimumSaving = ownPrefix + "minimum-saving"
	// AnnotationSoftExpireAfter is the age at which nodes are replaced under the budgets for drift.
	AnnotationSoftExpireAfter = ownPrefix + "soft-expire-after"
	// AnnotationMakeRoom enables the replacement of nodes that have no room for a DaemonSet's pod.
	AnnotationMakeRoom = ownPrefix + "make-room-for-daemonsets"
	// AnnotationWaitForJobs makes consolidation wait for pods of Jobs that will end before moving them pays off.
	AnnotationWaitForJobs = ownPrefix + "wait-for-jobs"
	// AnnotationAhead says whether nodes of the pool may be launched before pods need them; default "true".
	AnnotationAhead = ownPrefix + "ahead"
)

// minExpiry is the shortest AnnotationSoftExpireAfter: below it, nodes would do little but start and stop.
const minExpiry = 10 * time.Minute

// DisruptionAnnotations holds the values of those annotations.
type DisruptionAnnotations struct {
	zone             *time.Location
	windows          []schedule
	binds            model.Window // only its reasons are set
	minSaving        model.Price
	minSavingPercent int
	softExpireAfter  time.Duration
	makeRoom         bool
	waitForJobs      bool
}

// reader parses the value of one annotation of a pool.
type reader func(w *DisruptionAnnotations, np *karpv1.NodePool, value string) error

var readers = map[string]reader{
	AnnotationTimeZone: func(w *DisruptionAnnotations, _ *karpv1.NodePool, value string) error {
		zone, err := zoneOf(value)
		if err == nil {
			w.zone = zone
		}
		return err
	},
	AnnotationWindows: func(w *DisruptionAnnotations, _ *karpv1.NodePool, value string) (err error) {
		if w.windows, err = readWindows(value); err != nil {
			return fmt.Errorf(`%w; write cron fields and a duration, such as "0 22 * * mon-fri 8h", and ; between several`, err)
		}
		return nil
	},
	AnnotationWindowsFor:      readWindowsFor,
	AnnotationMinimumSaving:   readSaving,
	AnnotationSoftExpireAfter: readSoftExpiry,
	AnnotationMakeRoom: func(w *DisruptionAnnotations, _ *karpv1.NodePool, value string) (err error) {
		w.makeRoom, err = readYes(value)
		return err
	},
	AnnotationWaitForJobs: func(w *DisruptionAnnotations, _ *karpv1.NodePool, value string) (err error) {
		w.waitForJobs, err = readYes(value)
		return err
	},
	AnnotationAhead: func(_ *DisruptionAnnotations, _ *karpv1.NodePool, value string) error {
		_, err := readYes(value)
		return err
	},
}

// ReadDisruptionAnnotations reads the annotations of a pool. The error names each one that cannot be read, its value
// and what to write instead; the others are read anyway.
func ReadDisruptionAnnotations(np *karpv1.NodePool) (DisruptionAnnotations, error) {
	w := DisruptionAnnotations{zone: time.UTC, binds: model.Window{Empty: true, Drifted: true, Underused: true}}
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(np.Annotations)) {
		if !strings.HasPrefix(key, ownPrefix) {
			continue
		}
		read, known := readers[key]
		if !known {
			problems = append(problems,
				fmt.Sprintf("annotation %s is not known; remove it, or write one of %s", key,
					strings.Join(slices.Sorted(maps.Keys(readers)), ", ")))
			continue
		}
		if err := read(&w, np, np.Annotations[key]); err != nil {
			problems = append(problems, fmt.Sprintf("annotation %s: %v", key, err))
		}
	}
	if len(problems) > 0 {
		return w, errors.New(strings.Join(problems, "; "))
	}
	return w, nil
}

// Ahead reports whether nodes of the pool may be launched, or replaced, before pods need them. They may not if the
// annotation cannot be read, which the pool reports.
func Ahead(np *karpv1.NodePool) bool {
	value, said := np.Annotations[AnnotationAhead]
	return !said || value == "true"
}

// HasDisruptionAnnotations reports whether the pool has annotations with our prefix.
func HasDisruptionAnnotations(np *karpv1.NodePool) bool {
	for key := range np.Annotations {
		if strings.HasPrefix(key, ownPrefix) {
			return true
		}
	}
	return false
}

// SameDisruptionAnnotations reports whether both pools have the same annotations with our prefix.
func SameDisruptionAnnotations(a, b *karpv1.NodePool) bool {
	own := func(of map[string]string) map[string]string {
		out := maps.Clone(of)
		maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, ownPrefix) })
		return out
	}
	return maps.Equal(own(a.Annotations), own(b.Annotations))
}

func readYes(value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, fmt.Errorf(`%q is neither "true" nor "false"`, value)
	}
	return value == "true", nil
}

func readWindowsFor(w *DisruptionAnnotations, np *karpv1.NodePool, value string) error {
	if _, windows := np.Annotations[AnnotationWindows]; !windows {
		return fmt.Errorf("says nothing without %s; add that, or remove this", AnnotationWindows)
	}
	w.binds = model.Window{}
	for _, reason := range strings.Split(value, ",") {
		switch reason = strings.TrimSpace(reason); karpv1.DisruptionReason(reason) {
		case karpv1.DisruptionReasonEmpty:
			w.binds.Empty = true
		case karpv1.DisruptionReasonDrifted:
			w.binds.Drifted = true
		case karpv1.DisruptionReasonUnderutilized:
			w.binds.Underused = true
		default:
			return fmt.Errorf("%q is no reason; write some of Empty, Drifted, Underutilized with commas between them", reason)
		}
	}
	return nil
}

func readSaving(w *DisruptionAnnotations, _ *karpv1.NodePool, value string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(value), "%")
	if !percent {
		number = strings.TrimSuffix(strings.TrimPrefix(number, "$"), "/h")
	}
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || math.IsNaN(n) || n < 0 || n > 1e6:
		return fmt.Errorf("%q is no amount; write dollars an hour, such as \"0.05\", or percent of a node's price, "+
			"such as \"15%%\"", value)
	case percent && (n > 100 || n != math.Trunc(n)):
		return fmt.Errorf("%q: write whole percent, 0%% to 100%%", value)
	case percent:
		w.minSavingPercent = int(n)
	default:
		w.minSaving = model.Price(math.Round(n * 1e6))
	}
	return nil
}

func readSoftExpiry(w *DisruptionAnnotations, np *karpv1.NodePool, value string) error {
	if value == karpv1.Never {
		return nil
	}
	after, err := time.ParseDuration(value)
	if err != nil || after < minExpiry {
		return fmt.Errorf(`%q is no duration, or shorter than %s; write one, such as "720h", or Never`, value, minExpiry)
	}
	if hard := np.Spec.Template.Spec.ExpireAfter.Duration; hard != nil && *hard <= after {
		return fmt.Errorf("%q is not before spec.template.spec.expireAfter (%s), at which nodes are removed whatever their "+
			"pods say; set that later, or to Never", value, *hard)
	}
	w.softExpireAfter = after
	return nil
}

// into translates the annotations for the engine.
func (w *DisruptionAnnotations) into(d *model.DisruptionPolicy, now time.Time) {
	if len(w.windows) > 0 {
		d.Window = w.binds
		open, until := inWindows(w.windows, wall(now, w.zone))
		d.Window.Open, d.Window.Until = open, instant(until, w.zone, now)
	}
	d.MinSaving, d.MinSavingPercent = w.minSaving, w.minSavingPercent
	d.SoftExpireAfter, d.ReplaceCrowded, d.WaitForJobs = w.softExpireAfter, w.makeRoom, w.waitForJobs
}
