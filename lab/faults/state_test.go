package faults

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

var setsGVR = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}

// allRun returns an error unless all desired pods run.
func (s *story) allRun() error {
	ready := map[string]int64{}
	for _, p := range s.c.api.Objects(podsGVR) {
		node, _, _ := unstructured.NestedString(p.Object, "spec", "nodeName")
		phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
		switch {
		case phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed):
		case node == "":
			return fmt.Errorf("pod %s waits", p.GetName())
		case p.GetDeletionTimestamp() != nil:
			return fmt.Errorf("pod %s is going", p.GetName())
		case condition(p, "Ready") == "True":
			ready[p.GetLabels()["app"]]++
		}
	}
	for _, set := range s.c.api.Objects(setsGVR) {
		want, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
		if got := ready[set.GetName()]; got != want {
			return fmt.Errorf("%d of %d pods of %s are ready", got, want, set.GetName())
		}
	}
	return nil
}

// tellState records all objects in the trace.
func (s *story) tellState() {
	for _, p := range s.c.api.Objects(podsGVR) {
		node, _, _ := unstructured.NestedString(p.Object, "spec", "nodeName")
		phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
		s.in.note("pod %s on %q: %s, ready %q, going %v", p.GetName(), node, phase, condition(p, "Ready"),
			p.GetDeletionTimestamp())
	}
	for _, c := range s.c.api.Objects(claimsGVR) {
		s.in.note("claim %s: labels %v, annotations %v, going %v, status %v", c.GetName(), c.GetLabels(),
			c.GetAnnotations(), c.GetDeletionTimestamp(), c.Object["status"])
	}
	for _, n := range s.c.api.Objects(nodesGVR) {
		s.in.note("node %s: going %v, finalizers %v, spec %v", n.GetName(), n.GetDeletionTimestamp(), n.GetFinalizers(),
			n.Object["spec"])
	}
	for _, i := range s.c.region.Instances() {
		s.in.note("instance %s %s for %s: %s", i.ID, i.PrivateDNS, i.Tags[tagClaim], i.State)
	}
}

// matched returns an error unless instances, NodeClaims and Nodes correspond one to one.
func (s *story) matched() error {
	claims := map[string]bool{}
	for _, c := range s.c.api.Objects(claimsGVR) {
		id, _, _ := unstructured.NestedString(c.Object, "status", "providerID")
		if id == "" || claims[id] {
			return fmt.Errorf("claim %s has provider ID %q", c.GetName(), id)
		}
		claims[id] = true
	}
	instances := s.instances()
	for _, i := range instances {
		if id := "aws:///" + i.Zone + "/" + i.ID; !claims[id] {
			return fmt.Errorf("instance %s has no claim", id)
		}
	}
	nodes := s.c.api.Objects(nodesGVR)
	for _, n := range nodes {
		if id, _, _ := unstructured.NestedString(n.Object, "spec", "providerID"); !claims[id] {
			return fmt.Errorf("node %s of %s has no claim", n.GetName(), id)
		}
	}
	if len(instances) != len(claims) || len(nodes) != len(claims) {
		return fmt.Errorf("%d instances, %d claims, %d nodes", len(instances), len(claims), len(nodes))
	}
	return nil
}

// unmarked returns an error if a node carries a mark of a command that is no longer in progress.
func (s *story) unmarked() error {
	for _, c := range s.c.api.Objects(claimsGVR) {
		if c.GetDeletionTimestamp() != nil {
			return fmt.Errorf("claim %s is going", c.GetName())
		}
		if condition(c, karpv1.ConditionTypeDisruptionReason) == "True" {
			return fmt.Errorf("claim %s is marked for a disruption", c.GetName())
		}
		if condition(c, karpv1.ConditionTypeInitialized) != "True" {
			return fmt.Errorf("claim %s is not initialized", c.GetName())
		}
	}
	for _, n := range s.c.api.Objects(nodesGVR) {
		if closed, _, _ := unstructured.NestedBool(n.Object, "spec", "unschedulable"); closed {
			return fmt.Errorf("node %s is cordoned", n.GetName())
		}
		taints, _, _ := unstructured.NestedSlice(n.Object, "spec", "taints")
		for _, x := range taints {
			return fmt.Errorf("node %s has taint %v", n.GetName(), x)
		}
	}
	return nil
}
