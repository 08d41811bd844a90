package loadbalancer

import (
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// classParams is the part of an IngressClassParams' spec that has an effect here.
type classParams struct {
	Scheme     string `json:"scheme"`
	TargetType string `json:"targetType"`
	Group      struct {
		Name string `json:"name"`
	} `json:"group"`
	Subnets struct {
		IDs []string `json:"ids"`
	} `json:"subnets"`
	Tags                   []pair `json:"tags"`
	LoadBalancerAttributes []pair `json:"loadBalancerAttributes"`
}

type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// classParams returns the IngressClassParams of an Ingress's class, or nil.
func (c *objects) classParams(i *networkingv1.Ingress) *unstructured.Unstructured {
	class, ok := c.classes[ptr.Deref(i.Spec.IngressClassName, i.Annotations["kubernetes.io/ingress.class"])]
	if !ok || class.Spec.Parameters == nil || class.Spec.Parameters.Kind != "IngressClassParams" {
		return nil
	}
	return c.params[ptr.Deref(class.Spec.Parameters.APIGroup, "")+"/"+class.Spec.Parameters.Name]
}

// paramsOf returns the settings of the IngressClassParams of an Ingress's class in the form of annotations. They take
// precedence over the Ingress's own, as in the AWS Load Balancer Controller.
func (c *objects) paramsOf(i *networkingv1.Ingress) map[string]string {
	object := c.classParams(i)
	if object == nil {
		return nil
	}
	var p classParams
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &p) // the API server has checked the types
	out := map[string]string{}
	for key, value := range map[string]string{
		"scheme": p.Scheme, "target-type": p.TargetType, "group.name": p.Group.Name,
		"subnets": strings.Join(p.Subnets.IDs, ","), "tags": joined(p.Tags),
		"load-balancer-attributes": joined(p.LoadBalancerAttributes),
	} {
		if value != "" {
			out[ingressPrefix+key] = value
		}
	}
	return out
}

func joined(pairs []pair) string {
	var out []string
	for _, p := range pairs {
		out = append(out, p.Key+"="+p.Value)
	}
	return strings.Join(out, ",")
}

// servedParams are the fields of an IngressClassParams that have an effect here.
var servedParams = []string{"scheme", "targetType", "group", "subnets", "tags", "loadBalancerAttributes"}

// tellUnserved reports the other fields of the IngressClassParams of an Ingress.
func (c *objects) tellUnserved(a *annotations, i *networkingv1.Ingress) {
	o := c.classParams(i)
	if o == nil {
		return
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	other := slices.DeleteFunc(slices.Sorted(maps.Keys(spec)), func(k string) bool {
		return slices.Contains(servedParams, k)
	})
	if subnets, _, _ := unstructured.NestedMap(spec, "subnets"); subnets["ids"] == nil {
		for _, k := range slices.Sorted(maps.Keys(subnets)) {
			other = append(other, "subnets."+k)
		}
	}
	if len(other) > 0 {
		a.problem("UnsupportedField", "these fields of IngressClassParams %s have no effect here: %s", o.GetName(),
			strings.Join(other, ", "))
	}
}
