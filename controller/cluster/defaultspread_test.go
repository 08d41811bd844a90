package cluster

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// spreadByDefault returns the State of a cluster whose kube-scheduler spreads pods over zones by default.
func spreadByDefault(t *testing.T) *State {
	t.Helper()
	config, err := translate.ParseSchedulerConfig([]byte("podTopologySpread: {defaultConstraints: [" +
		"{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}"))
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Scheduler: config})
}

// Pods without topology spread constraints get kube-scheduler's default constraints, in whatever order the objects
// arrive that determine which pods these count.
func TestPodsGetDefaultTopologySpread(t *testing.T) {
	s := spreadByDefault(t)
	spread := func() []model.Spread {
		t.Helper()
		snapshot := s.Snapshot()
		if len(snapshot.Pending) != 1 {
			t.Fatalf("pending: %v", snapshot.Pending)
		}
		return snapshot.Shapes[snapshot.Pending[0].Shape].Spread
	}
	pod := ownedBy("ReplicaSet", "web", "web-1", "", 1)
	pod.Labels = map[string]string{"app": "web", "tier": "front"}
	s.Update(pod)
	if got := spread(); len(got) != 0 {
		t.Fatalf("a pod that nothing selects has the constraints %v", got)
	}

	s.storage.spread.watched["ReplicaSet"] = true // as Attach does
	s.Delete(pod)
	pod = ownedBy("ReplicaSet", "web", "web-2", "", 2)
	pod.Labels = map[string]string{"app": "web", "tier": "front"}
	s.Update(pod)
	if got := s.Snapshot().Pending; len(got) != 0 {
		t.Fatalf("a pod whose ReplicaSet is yet to be seen is planned for: %v", got)
	}

	set := replicaSet(1, false, 1)
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	s.Update(set)
	got := spread()
	if len(got) != 1 || !got[0].Hard || got[0].MaxSkew != 1 || len(got[0].Pods.Labels) != 1 {
		t.Fatalf("a pod of a ReplicaSet has the constraints %v", got)
	}

	service := &corev1.Service{
		ObjectMeta: meta("front", 1), Spec: corev1.ServiceSpec{Selector: map[string]string{"tier": "front"}},
	}
	service.Namespace = "default"
	s.Update(service)
	if got := spread(); len(got) != 1 || len(got[0].Pods.Labels) != 2 {
		t.Errorf("with a Service, it counts %v", got)
	}
	s.Delete(service)
	if got := spread(); len(got) != 1 || len(got[0].Pods.Labels) != 1 {
		t.Errorf("without the Service, it counts %v", got)
	}
}

// A pod waits only for a controller whose selector kube-scheduler uses, by kind and API version: a Job has none, and
// the StatefulSets of OpenKruise are not watched.
func TestPodsOfOtherControllersAreNotKeptFromNodes(t *testing.T) {
	s := spreadByDefault(t)
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job", "ReplicationController", "ResourceQuota"} {
		s.storage.spread.watched[kind] = true // as Attach does
	}
	for version, owner := range []metav1.OwnerReference{
		{APIVersion: "batch/v1", Kind: "Job"},
		{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet"},
		{APIVersion: "apps/v1", Kind: "StatefulSet"},
	} {
		pod := ownedBy(owner.Kind, owner.APIVersion, strings.ReplaceAll(owner.APIVersion, "/", "-"), "", version+1)
		pod.OwnerReferences[0].APIVersion = owner.APIVersion
		s.Update(pod)
	}
	var got []string
	for _, p := range s.Snapshot().Pending {
		got = append(got, p.Name)
	}
	slices.Sort(got)
	if want := []string{"apps.kruise.io-v1beta1", "batch-v1"}; !slices.Equal(got, want) {
		t.Errorf("pending: %v, want %v", got, want)
	}
}

// Pods of other schedulers are not pending, unless kube-scheduler has a profile of that name.
func TestProfilesOfKubeSchedulerHavePods(t *testing.T) {
	config, err := translate.ParseSchedulerConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\n" +
		"kind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: batch}]"))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Scheduler: config})
	for version, scheduler := range []string{"batch", "other", corev1.DefaultSchedulerName, ""} {
		pod := podOf("of-"+scheduler, "", "1", version+1)
		pod.Spec.SchedulerName = scheduler
		s.Update(pod)
	}
	if pending := s.Snapshot().Pending; len(pending) != 1 || pending[0].Name != "of-batch" {
		t.Errorf("pending: %v", pending)
	}
}
