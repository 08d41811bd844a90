package store

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record"
)

// The recorder knows what created the pods of a node that is removed, so that savings can be divided among workloads.
func TestWorkloadsOfARemovedNodeAreRecorded(t *testing.T) {
	yes, state := true, cluster.New(cluster.Options{})
	n := model.Node{Name: "n", Claim: "c", Pool: "general", Type: "m5.large", Price: 1e6}
	n.Allocatable[model.CPU] = 1000
	s := &model.Snapshot{Now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Shapes: make([]model.Shape, 3)}
	for i, owner := range []metav1.OwnerReference{
		{Kind: "ReplicaSet", Name: "web-7fb4", Controller: &yes}, {Kind: "StatefulSet", Name: "db", Controller: &yes}, {},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint("uid-", i)),
			Labels: map[string]string{"pod-template-hash": "7fb4"},
		}}
		pod.Spec.NodeName = n.Name
		if owner.Kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{owner}
		}
		state.Update(pod)
		s.Shapes[i].Requests[model.CPU] = int64(300 - 100*i)
		key := model.PodKey{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
		n.Pods = append(n.Pods, model.BoundPod{Pod: model.Pod{PodKey: key, Shape: i}})
	}
	s.Nodes = []model.Node{n}
	r := New(Options{State: state})
	r.record(record.Cycle{
		Snapshot: s, Begun: []string{"cmd"}, Plan: model.Plan{Commands: []model.Command{{
			ID: "cmd", Method: model.Underutilized, Removals: []model.Removal{{Node: "n", Claim: "c", Pool: "general"}},
		}}},
	})
	got := fmt.Sprint(r.pending[0].Decision.Shares)
	want := "[{{  } 0.4} {{Deployment shop web} 0.3} {{StatefulSet shop db} 0.2} {{ shop } 0.1}]"
	if got != want {
		t.Errorf("shares are %s, want %s", got, want)
	}
}
