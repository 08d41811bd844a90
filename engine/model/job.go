package model

import "time"

// JobRun is what is known of how long a Job's pod will run on.
type JobRun struct {
	Started time.Time
	Past    []time.Duration // how long earlier pods of the Job, or of its CronJob, ran that succeeded; ascending
	EndsBy  time.Time       // when its activeDeadlineSeconds are over, zero if it has none
}

// Left is how long the pod is likely to run on, and whether anything is known of that: until the median of the earlier ones that
// ran longer than it has, and not beyond its deadline.
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
