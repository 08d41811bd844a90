// Package surge decides whether the only pod of a Deployment is left alone for a while when its Node is removed, so
// that another one is ready first. It is pure. See docs/adr/0010-one-replica-is-rolled-over-not-scaled.md.
package surge

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const (
	// Annotation on a Deployment enables surging: "true", or the maximum wait for the next pod.
	Annotation = "nodeless.sh/surge-before-eviction"
	// Mark on a Deployment's pod template says for which pod, by UID, and since when. Writing it rolls the Deployment
	// over, and it is all that a restarted process needs.
	Mark = "nodeless.sh/surged-for"
)

// How long to wait for the next pod.
const (
	usual    = 5 * time.Minute
	shortest = 10 * time.Second
	longest  = time.Hour
)

// Decision says what to do with a pod that is to be evicted.
type Decision struct {
	Asked bool      // its Deployment enables surging; if not, all else is zero
	Begin string    // the Mark to write; "" = none
	Until time.Time // the pod is left alone until then; zero = it is evicted now
	// Problem is why the pod is evicted although surging is enabled, and what to do about it; "" if it is not.
	Problem string
}

// Decide decides about a pod of the Deployment, according to the Deployment's annotations.
func Decide(d *appsv1.Deployment, pod *metav1.ObjectMeta, now time.Time) Decision {
	value, asked := d.Annotations[Annotation]
	if !asked || value == "false" || d.DeletionTimestamp != nil || !owns(d, pod) || ptr.Deref(d.Spec.Replicas, 1) != 1 {
		return Decision{}
	}
	wait, err := maxWait(value)
	if err != nil {
		return Decision{Asked: true, Problem: err.Error()}
	}
	if since, marked := markedFor(d, pod.UID); marked {
		until := since.Add(wait)
		if now.Before(until) {
			return Decision{Asked: true, Until: until}
		}
		return Decision{
			Asked: true,
			Problem: fmt.Sprintf("no other pod was ready within %s; check its new pod, or allow more time in annotation %s",
				wait, Annotation),
		}
	}
	if why := cannot(d); why != "" {
		return Decision{Asked: true, Problem: why}
	}
	return Decision{Asked: true, Begin: string(pod.UID) + " " + now.UTC().Format(time.RFC3339), Until: now.Add(wait)}
}

func maxWait(value string) (time.Duration, error) {
	if value == "true" {
		return usual, nil
	}
	wait, err := time.ParseDuration(value)
	if err != nil || wait < shortest || wait > longest {
		return 0, fmt.Errorf(`annotation %s: %q is neither "true" nor a duration from %s to %s; correct it`,
			Annotation, value, shortest, longest)
	}
	return wait, nil
}

// markedFor returns since when the Deployment is being rolled over for the pod, and whether it is.
func markedFor(d *appsv1.Deployment, pod types.UID) (time.Time, bool) {
	uid, text, _ := strings.Cut(d.Spec.Template.Annotations[Mark], " ")
	since, err := time.Parse(time.RFC3339, text)
	return since, err == nil && uid == string(pod)
}

// cannot returns why the Deployment would not start another pod before it ends its only one; "" if it would.
func cannot(d *appsv1.Deployment) string {
	switch rolling := d.Spec.Strategy.RollingUpdate; {
	case d.Spec.Paused:
		return "it is paused and rolls out nothing; resume it"
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return "its strategy Recreate deletes a pod before the next starts; use RollingUpdate"
	case rolling != nil && scaled(rolling.MaxSurge, true, 1) < 1:
		return "its maxSurge allows no second pod; set spec.strategy.rollingUpdate.maxSurge to 1 or more"
	case rolling != nil && scaled(rolling.MaxUnavailable, false, 0) > 0:
		return "its maxUnavailable allows its only pod to end first; set spec.strategy.rollingUpdate.maxUnavailable to 0"
	}
	return ""
}

// scaled returns a number or a percentage of one replica, rounded up or down.
func scaled(v *intstr.IntOrString, up bool, other int) int {
	if v == nil {
		return other
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, 1, up)
	if err != nil {
		return other
	}
	return n
}

func owns(d *appsv1.Deployment, pod *metav1.ObjectMeta) bool {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// Deployment returns the name of the Deployment that a pod with this owner belongs to: ReplicaSets are named after
// their Deployment and the template's hash, which their pods have as a label (k8s.io/kubernetes
// pkg/controller/deployment/sync.go); "" if it belongs to none.
func Deployment(pod *metav1.ObjectMeta) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" {
		return ""
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	if !ok {
		return ""
	}
	return name
}

// Passes reports whether an API server error may be gone at the next attempt because the request itself is not the
// cause.
func Passes(err error) bool {
	if err == nil {
		return false
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return true // it did not answer
	}
	code := s.Status().Code
	return code == http.StatusConflict || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
