package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// needed are the fields without which the API server would reject an object.
var needed = []string{
	"metadata", "name", "namespace", "uid", "spec", "status", "key", "operator", "topologyKey", "maxSkew",
	"whenUnsatisfiable",
	"containers", "nodeName", "allocatable", "cpu", "memory", "pods", "ephemeral-storage", "conditions", "type",
	"nodeSelectorTerms",
	"requiredDuringSchedulingIgnoredDuringExecution", "required", "containerPort", "provisioner", "volumeBindingMode",
	"driver", "volumeHandle",
	"claimName", "persistentVolumeClaim", "ephemeral", "emptyDir", "storageClassName", "volumeName", "accessModes",
	"csi", "resources", "phase",
	"kubernetes.io/hostname", "matchLabelKeys", "mismatchLabelKeys", "drivers", "nodeID", "count", "claimRef",
	"allocatedResources", "pod", "nodes",
	"kubernetes.io/metadata.name", "ownerReferences", "value", "hostPort", "kind",
	"resourceClaimName", "resourceClaimTemplateName", "resourceClaimStatuses", "requests", "exactly", "deviceClassName",
	"allocationMode", "nodeSelector", "generation", "resourceSliceCount", "pool", "device", "request", "results", "cel",
	"expression",
}

// shrink returns the smallest case that still fails, found by removing parts one by one.
func shrink(c *Case, fails func(*Case) bool) *Case {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err) // API objects can always be marshalled
	}
	for {
		smaller := attempt(data, func(data []byte) bool {
			var c Case
			return json.Unmarshal(data, &c) == nil && c.Pod != nil && len(c.Nodes) > 0 && plausible(&c) && fails(&c)
		})
		if smaller == nil {
			var out Case
			if err := json.Unmarshal(data, &out); err != nil {
				panic(err)
			}
			return &out
		}
		data = smaller
	}
}

// plausible reports whether no part was removed that never occurs without another, such as one of a label's old and
// new names.
func plausible(c *Case) bool {
	if slices.ContainsFunc(c.CSINodes,
		func(n *storagev1.CSINode) bool { return n.Annotations[corev1.MigratedPluginsAnnotationKey] == "" }) {
		return false
	}
	if slices.ContainsFunc(c.Volumes, takenOver) && len(c.CSINodes) < len(c.Nodes) {
		return false
	}
	if len(c.CSIDrivers) > 0 && len(c.Capacities) == 0 {
		return false // as if nobody could read them
	}
	if slices.ContainsFunc(c.ResourceClaims, func(d *resourcev1.ResourceClaim) bool {
		return len(d.Spec.Devices.Requests) == 0 || d.Status.Allocation != nil && !held(c, d)
	}) {
		return false
	}
	return !slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool {
		return n.Labels[betaOS] != n.Labels[corev1.LabelOSStable] || n.Labels[zoneOfEBS] != n.Labels[corev1.LabelTopologyZone]
	})
}

// held reports whether a pod uses the devices of an allocated claim: nothing else keeps them.
func held(c *Case, claim *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(c.Pods, func(p *corev1.Pod) bool {
		return p.Namespace == claim.Namespace && slices.ContainsFunc(p.Spec.ResourceClaims, func(u corev1.PodResourceClaim) bool {
			return u.ResourceClaimName != nil && *u.ResourceClaimName == claim.Name
		}) && slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
			return r.Resource == "pods" && r.UID == p.UID
		})
	})
}

// attempt removes one part, trying those nearer to the root first, and returns the first result that still fails, or
// nil.
func attempt(data []byte, fails func([]byte) bool) []byte {
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		panic(err)
	}
	var found []byte
	try := func() bool {
		smaller, err := json.Marshal(root)
		if err == nil && fails(smaller) {
			found = smaller
		}
		return found != nil
	}
	level := []part{{value: root}}
	for len(level) > 0 {
		var next []part
		for _, p := range level {
			if p.without(try) {
				return found
			}
			next = append(next, p.parts()...)
		}
		level = next
	}
	return nil
}

// part is a value in a JSON tree; put replaces it.
type part struct {
	value any
	put   func(any)
}

func (p part) parts() []part {
	var out []part
	switch v := p.value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, part{v[key], func(x any) { v[key] = x }})
		}
	case []any:
		for i := range v {
			out = append(out, part{v[i], func(x any) { v[i] = x }})
		}
	}
	return out
}

// without tries the tree without each member of p in turn, and restores it if none of these fails.
func (p part) without(try func() bool) bool {
	switch v := p.value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if slices.Contains(needed, key) {
				continue
			}
			was := v[key]
			delete(v, key)
			if try() {
				return true
			}
			v[key] = was
		}
	case []any:
		if len(v) == 1 && p.put != nil {
			if _, plain := v[0].(string); plain {
				return false // values, namespaces and the like must not become empty
			}
		}
		for i := range v {
			p.put(slices.Delete(slices.Clone(v), i, i+1))
			if try() {
				return true
			}
			p.put(v)
		}
	}
	return false
}

func TestShrinkingLeavesWhatMatters(t *testing.T) {
	c := generate(1, 7)
	small := shrink(c, func(c *Case) bool { return len(c.Nodes) > 1 })
	if len(small.Nodes) != 2 || len(small.Pods) != 0 || len(small.Pod.Spec.Containers) != 0 &&
		len(small.Pod.Spec.Tolerations) != 0 {
		t.Errorf("got\n%s", small.YAML())
	}
}
