package apisim

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// kind describes one kind of object.
type kind struct {
	schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
	custom     bool // defined by a CRD with a status subresource
}

// custom holds the custom resources: Karpenter's, its AWS provider's, and the one in which the controller stores its
// decisions.
var custom = []schema.GroupVersionKind{
	{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
	{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
	{Group: "karpenter.sh", Version: "v1alpha1", Kind: "NodeOverlay"},
	{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
	{Group: "nodeless.sh", Version: "v1alpha1", Kind: "DecisionLog"},
}

// clusterWide are the cluster-scoped built-in kinds that the tests use.
var clusterWide = []string{
	"Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
	"PriorityClass", "DeviceClass",
	"ResourceSlice", "DeviceTaintRule",
}

// kinds returns all kinds by resource: those that client-go knows, and the custom ones.
var kinds = sync.OnceValue(func() map[schema.GroupVersionResource]*kind {
	out := map[schema.GroupVersionResource]*kind{}
	add := func(gvk schema.GroupVersionKind, namespaced, isCustom bool) {
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		out[resource] = &kind{GroupVersionKind: gvk, resource: resource, namespaced: namespaced, custom: isCustom}
	}
	types := clientgoscheme.Scheme.AllKnownTypes()
	for gvk, t := range types {
		if _, listed := types[gvk.GroupVersion().WithKind(gvk.Kind+"List")]; listed && hasMetadata(t) {
			add(gvk, !slices.Contains(clusterWide, gvk.Kind), false)
		}
	}
	for _, gvk := range custom {
		add(gvk, false, true)
	}
	return out
})

func hasMetadata(t reflect.Type) bool {
	_, ok := reflect.PointerTo(t).MethodByName("GetObjectMeta")
	return ok
}

// served returns the group versions, sorted.
func served() []schema.GroupVersion {
	seen := map[schema.GroupVersion]bool{}
	var out []schema.GroupVersion
	for gvr := range kinds() {
		if gv := gvr.GroupVersion(); !seen[gv] {
			seen[gv] = true
			out = append(out, gv)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// discover answers discovery requests; nil if the path is not one.
func discover(path string) any {
	switch path {
	case "/version":
		return map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.2"}
	case "/api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		return groups()
	}
	var gv schema.GroupVersion
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		gv.Version = parts[1]
	case len(parts) == 3 && parts[0] == "apis":
		gv.Group, gv.Version = parts[1], parts[2]
	default:
		return nil
	}
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for gvr, k := range kinds() {
		if gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: gvr.Resource, Kind: k.Kind, Namespaced: k.namespaced,
				Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, gv := range served() {
		if gv.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if n := len(list.Groups); n > 0 && list.Groups[n-1].Name == gv.Group {
			list.Groups[n-1].Versions = append(list.Groups[n-1].Versions, v)
			continue
		}
		list.Groups = append(list.Groups,
			metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
	}
	return list
}
