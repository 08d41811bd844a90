package translate

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// jobOf is the Job that owns a pod, or the CronJob if the Job is one's, as namespace/name, so that the pods of all of
// its runs have the same. A CronJob's Jobs are named after it and the minute they were due at, counted from 1970
// (k8s.io/kubernetes pkg/controller/cronjob, getJobName): Jobs need not be watched for it.
func jobOf(namespace, job string) string {
	if i := strings.LastIndexByte(job, '-'); i > 0 {
		if minute := job[i+1:]; len(minute) >= 8 && strings.Trim(minute, "0123456789") == "" {
			job = job[:i]
		}
	}
	return namespace + "/" + job
}

// readJob fills in what is known of how long a Job's pod runs.
func (p *Pod) readJob(pod *corev1.Pod, job string) {
	p.Job = jobOf(pod.Namespace, job)
	if pod.Status.StartTime == nil {
		return
	}
	p.Started = pod.Status.StartTime.Time
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil {
		p.EndsBy = p.Started.Add(time.Duration(min(*s, int64(Forever.Sub(p.Started)/time.Second))) * time.Second)
	}
	if at := lastEvent(pod, true); pod.Status.Phase == corev1.PodSucceeded && at.After(p.Started) {
		p.Ran = at.Sub(p.Started)
	}
}
