package crds

import (
	"github.com/awslabs/operatorpkg/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	apicrds "github.com/nodeless/nodeless/api/crds"
)

// AutoMode returns the definitions of a cluster with EKS Auto Mode: those of All, NodeClass and CNINode. NodePool is
// stricter: its nodes expire after 336h by default, and pools of NodeClasses must follow the rules of Auto Mode. On
// EKS, these definitions are AWS's own and must not be installed.
func AutoMode() []*apiextensionsv1.CustomResourceDefinition {
	all := All()
	restrict(all[0])
	return append(all, object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.NodeClass),
		object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.CNINode))
}

// onAuto is the beginning of a rule on a NodePool's template that applies only to pools of NodeClasses.
const onAuto = "self.nodeClassRef.group != 'eks.amazonaws.com' || "

// autoRules are the rules of EKS Auto Mode on a NodePool's template. The first has EKS's message; the second warns of
// a trap: Karpenter's labels restrict nothing there (Amazon EKS user guide, "Create a Node Pool for EKS Auto Mode").
var autoRules = apiextensionsv1.ValidationRules{
	{
		Rule: onAuto + "has(self.expireAfter) && self.expireAfter != 'Never' && duration(self.expireAfter) + " +
			"duration(has(self.terminationGracePeriod) ? self.terminationGracePeriod : '24h') <= duration('504h')",
		Message: "the sum of expireAfter and terminationGracePeriod (defaulted to 24h) may not exceed 21 days",
	},
	{
		Rule: onAuto + "self.requirements.all(r, !r.key.startsWith('karpenter.k8s.aws/'))",
		Message: "nodes of EKS Auto Mode have no labels karpenter.k8s.aws/…: write eks.amazonaws.com/… instead, such as " +
			"eks.amazonaws.com/instance-category",
	},
}

// restrict adds the rules of Auto Mode to the definition of NodePool.
func restrict(pools *apiextensionsv1.CustomResourceDefinition) {
	for i := range pools.Spec.Versions {
		within(pools.Spec.Versions[i].Schema.OpenAPIV3Schema, []string{"spec", "template", "spec"},
			func(template *apiextensionsv1.JSONSchemaProps) {
				template.XValidations = append(template.XValidations, autoRules...)
				within(template, []string{"expireAfter"}, func(p *apiextensionsv1.JSONSchemaProps) {
					p.Default = ptr.To(apiextensionsv1.JSON{Raw: []byte(`"336h"`)})
				})
			})
	}
}

// within changes the schema at a path of properties.
func within(s *apiextensionsv1.JSONSchemaProps, path []string, change func(*apiextensionsv1.JSONSchemaProps)) {
	if len(path) == 0 {
		change(s)
		return
	}
	p := s.Properties[path[0]]
	within(&p, path[1:], change)
	s.Properties[path[0]] = p
}
