package model

import "time"

// JobRun is what is known about how long a Job's pod will keep running.
type JobRun struct {
	Started time.Time
	Past    []time.Duration // run times of earlier successful pods of the Job or its CronJob; ascending
	EndsBy  time.Time       // when activeDeadlineSeconds expires; zero if there is no deadline
}

// Remaining estimates how much longer the pod will run, and reports whether there is anything to base an estimate on.
// The estimate is the median of the earlier runs that took longer than this one has so far, capped by the deadline.
func (j *JobRun) Remaining(now time.Time) (time.Duration, bool) {
	ran := now.Sub(j.Started)
	longer := j.Past
	for len(longer) > 0 && longer[0] <= ran {
		longer = longer[1:]
	}
	left, known := time.Duration(0), len(longer) > 0
	if known {
		left = longer[len(longer)/2] - ran
	}
	if deadline := j.EndsBy.Sub(now); !j.EndsBy.IsZero() && deadline > 0 && (!known || deadline < left) {
		left, known = deadline, true
	}
	return left, known
}
