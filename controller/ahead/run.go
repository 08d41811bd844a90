package ahead

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// MaxPods bounds the number of pods of one run for which capacity is prepared.
const MaxPods = 10_000

// next returns when a CronJob runs next after a time, zero if never. It reads the schedule as the CronJob controller
// does (k8s.io/kubernetes pkg/controller/cronjob, formatSchedule and mostRecentScheduleTime).
func next(cj *batchv1.CronJob, after time.Time) (time.Time, error) {
	text := cj.Spec.Schedule
	if zone := ptr.Deref(cj.Spec.TimeZone, ""); zone != "" {
		text = "TZ=" + zone + " " + text
	}
	if head, _, more := strings.Cut(text, " "); !more && strings.Contains(head, "=") { // the library would panic
		return time.Time{}, fmt.Errorf("spec.schedule: %q has a time zone and nothing else", text)
	}
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("spec.schedule: %w", err)
	}
	if every, is := schedule.(cron.ConstantDelaySchedule); is { // @every counts from the last run
		base := cj.CreationTimestamp.Time
		if last := cj.Status.LastScheduleTime; last != nil {
			base = last.Time
		}
		if every.Delay <= 0 {
			return time.Time{}, errors.New("spec.schedule: @every needs a duration above 0")
		}
		runs := int64(max(after.Sub(base), 0)/every.Delay) + 1
		return base.Add(time.Duration(runs) * every.Delay).Truncate(time.Second), nil
	}
	return schedule.Next(after), nil
}

// jobOf returns the name of the Job that a run creates (k8s.io/kubernetes pkg/controller/cronjob, getJobName).
func jobOf(cj *batchv1.CronJob, run time.Time) types.NamespacedName {
	return types.NamespacedName{Namespace: cj.Namespace, Name: cj.Name + "-" + strconv.FormatInt(run.Unix()/60, 10)}
}

// waits reports whether the run with this Job has to wait for an earlier one to end.
func waits(cj *batchv1.CronJob, job types.NamespacedName) bool {
	return cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent &&
		slices.ContainsFunc(cj.Status.Active, func(o corev1.ObjectReference) bool { return o.Name != job.Name })
}

// podsOf returns how many pods a Job creates at once.
func podsOf(job *batchv1.JobSpec) int {
	if ptr.Deref(job.Suspend, false) || ptr.Deref(job.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName {
		return 0
	}
	n := ptr.Deref(job.Parallelism, 1)
	if job.Completions != nil {
		n = min(n, *job.Completions)
	}
	return int(min(max(n, 0), MaxPods))
}

// placeholder returns a pod of the run's Job as the Job controller would create it, without the volumes whose claims
// are created with the pod. It must not run on nodes of the pools in notFor.
func placeholder(cj *batchv1.CronJob, job types.NamespacedName, run time.Time, ranges []*corev1.LimitRange,
	notFor []string,
) *corev1.Pod {
	t := &cj.Spec.JobTemplate.Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: job.Name, UID: types.UID(string(cj.UID) + "/" + job.Name),
			CreationTimestamp: metav1.NewTime(run.UTC()), Annotations: t.Annotations,
			Labels: map[string]string{batchv1.JobNameLabel: job.Name, "job-name": job.Name},
		},
		Spec: translate.AsCreated(&t.Spec, ranges),
	}
	for key, value := range t.Labels {
		pod.Labels[key] = value
	}
	pod.Spec.NodeName = ""
	pod.Spec.Volumes = slices.DeleteFunc(slices.Clone(t.Spec.Volumes),
		func(v corev1.Volume) bool { return v.Ephemeral != nil })
	if len(notFor) > 0 {
		pod.Spec.Affinity = avoiding(t.Spec.Affinity, notFor)
	}
	return pod
}

// avoiding returns the affinity with the added requirement that the node belongs to none of the pools.
func avoiding(a *corev1.Affinity, pools []string) *corev1.Affinity {
	out := ptr.To(ptr.Deref(a, corev1.Affinity{}))
	out.NodeAffinity = ptr.To(ptr.Deref(out.NodeAffinity, corev1.NodeAffinity{}))
	var terms []corev1.NodeSelectorTerm
	if r := out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		terms = slices.Clone(r.NodeSelectorTerms)
	} else {
		terms = make([]corev1.NodeSelectorTerm, 1)
	}
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) == 0 && len(terms) > 1 {
			continue // it matches nothing
		}
		terms[i].MatchExpressions = append(slices.Clone(terms[i].MatchExpressions), corev1.NodeSelectorRequirement{
			Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpNotIn, Values: pools,
		})
	}
	out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	return out
}
