package surge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var noon = time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)

func deployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "db", Annotations: map[string]string{Annotation: "true"}}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	d.Spec.Template.Annotations = map[string]string{}
	if change != nil {
		change(d)
	}
	return d
}

func rolling(surge, unavailable string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		s, u := intstr.Parse(surge), intstr.Parse(unavailable)
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u},
		}
	}
}

func marked(text string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Annotations[Mark] = text }
}

func TestADeploymentsOnlyPodWaitsForTheNext(t *testing.T) {
	pod := &metav1.ObjectMeta{UID: "pod-1", Labels: map[string]string{"app": "db"}}
	two := int32(2)
	for about, c := range map[string]struct {
		change  func(*appsv1.Deployment)
		begin   bool
		until   time.Duration // since noon; 0 = it is evicted
		problem string
	}{
		"it is asked for": {nil, true, 5 * time.Minute, ""},
		"for so long": {
			func(d *appsv1.Deployment) { d.Annotations[Annotation] = "90s" }, true,
			90 * time.Second, "",
		},
		"the defaults let it":    {rolling("25%", "25%"), true, 5 * time.Minute, ""},
		"it is under way":        {marked("pod-1 2026-06-03T11:58:00Z"), false, 3 * time.Minute, ""},
		"it took too long":       {marked("pod-1 2026-06-03T11:54:00Z"), false, 0, "within 5m0s"},
		"it was for another pod": {marked("pod-0 2026-06-03T11:58:00Z"), true, 5 * time.Minute, ""},
		"somebody wrote a mark":  {marked("pod-1"), true, 5 * time.Minute, ""},
		"it is not asked for":    {func(d *appsv1.Deployment) { d.Annotations = nil }, false, 0, ""},
		"it is declined":         {func(d *appsv1.Deployment) { d.Annotations[Annotation] = "false" }, false, 0, ""},
		"there are two":          {func(d *appsv1.Deployment) { d.Spec.Replicas = &two }, false, 0, ""},
		"it is going itself": {
			func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: noon} },
			false, 0, "",
		},
		"the pod is somebody else's": {
			func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels["app"] = "web" }, false,
			0, "",
		},
		"nobody can read it": {
			func(d *appsv1.Deployment) { d.Annotations[Annotation] = "soon" }, false, 0,
			`nodeless.sh/surge-before-eviction: "soon"`,
		},
		"that is too long": {func(d *appsv1.Deployment) { d.Annotations[Annotation] = "48h" }, false, 0, "1h0m0s"},
		"it is paused":     {func(d *appsv1.Deployment) { d.Spec.Paused = true }, false, 0, "resume it"},
		"it recreates": {
			func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Recreate" }, false, 0,
			"RollingUpdate",
		},
		"it may not surge":           {rolling("0", "1"), false, 0, "maxSurge"},
		"its only pod may end first": {rolling("1", "1"), false, 0, "maxUnavailable"},
	} {
		got := Decide(deployment(c.change), pod, noon)
		until := time.Duration(0)
		if !got.Until.IsZero() {
			until = got.Until.Sub(noon)
		}
		if (got.Begin != "") != c.begin || until != c.until || (got.Problem == "") != (c.problem == "") ||
			!strings.Contains(got.Problem, c.problem) {
			t.Errorf("%s: %+v", about, got)
		}
		if got.Begin == "" {
			continue
		}
		// The annotation is all that the next process needs.
		again := deployment(c.change)
		again.Spec.Template.Annotations[Mark] = got.Begin
		if next := Decide(again, pod, noon.Add(time.Second)); next.Begin != "" || !next.Until.Equal(got.Until) {
			t.Errorf("%s: a second later %+v, not %+v", about, next, got)
		}
	}
}

func TestOnlyErrorsThatPassAreTriedAgain(t *testing.T) {
	kind := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, c := range []struct {
		err    error
		passes bool
	}{
		{nil, false},
		{apierrors.NewForbidden(kind, "db", errors.New("no")), false},
		{fmt.Errorf("read: %w", apierrors.NewForbidden(kind, "db", errors.New("no"))), false},
		{apierrors.NewBadRequest("denied by a webhook"), false},
		{apierrors.NewConflict(kind, "db", errors.New("changed")), true},
		{apierrors.NewTooManyRequests("later", 1), true},
		{fmt.Errorf("read: %w", apierrors.NewInternalError(errors.New("etcd"))), true},
		{errors.New("connection refused"), true},
	} {
		if got := Passes(c.err); got != c.passes {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

func TestTheDeploymentOfAPodIsFoundByName(t *testing.T) {
	yes := true
	pod := func(kind, owner, hash string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{
			Labels:          map[string]string{"pod-template-hash": hash},
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: &yes}},
		}
	}
	for _, c := range []struct {
		pod  *metav1.ObjectMeta
		want string
	}{
		{pod("ReplicaSet", "my-db-5d9c7", "5d9c7"), "my-db"},
		{pod("ReplicaSet", "my-db-5d9c7", ""), ""},
		{pod("ReplicaSet", "own", "5d9c7"), ""},
		{pod("StatefulSet", "db-5d9c7", "5d9c7"), ""},
		{&metav1.ObjectMeta{}, ""},
	} {
		if got := Deployment(c.pod); got != c.want {
			t.Errorf("%+v: %q, want %q", c.pod.OwnerReferences, got, c.want)
		}
	}
}
