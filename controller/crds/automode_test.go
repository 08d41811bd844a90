package crds_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/plane/planetest"
)

const terms = `subnetSelectorTerms: [{tags: {Name: private}}], securityGroupSelectorTerms: [{tags: {Name: nodes}}]`

// autoPool is a NodePool's template with a NodeClass of EKS Auto Mode.
func autoPool(rest string) string {
	return `{template: {spec: {nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}, ` + rest + `}}}`
}

// The API server's own validation messages for the objects of EKS Auto Mode, verbatim.
func TestObjectsOfAutoModeAreValidated(t *testing.T) {
	plane := planetest.Start(t)
	api, err := client.New(plane.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := crds.Apply(context.Background(), plane.RESTConfig(), crds.AutoMode()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the next test has Karpenter's own NodePool again
		if err := crds.Install(context.Background(), plane.RESTConfig()); err != nil {
			t.Error(err)
		}
	})
	const tooLong = "spec.template.spec: Invalid value: the sum of expireAfter and terminationGracePeriod " +
		"(defaulted to 24h) may not exceed 21 days"
	const oss = `{template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, `
	for name, c := range map[string]struct{ kind, spec, want string }{ // want "" = accepted
		"a role":              {"NodeClass", `{role: nodes, ` + terms + `}`, ""},
		"neither":             {"NodeClass", `{` + terms + `}`, "must specify exactly one of ['role', 'instanceProfile']"},
		"both":                {"NodeClass", `{role: a, instanceProfile: b, ` + terms + `}`, "must specify exactly one of"},
		"no subnets":          {"NodeClass", `{role: a, securityGroupSelectorTerms: [{name: a}]}`, "spec.subnetSelectorTerms: Required value"},
		"an empty term":       {"NodeClass", `{role: a, subnetSelectorTerms: [{}], securityGroupSelectorTerms: [{name: a}]}`, "expected exactly one of ['tags', 'id']"},
		"a disk of 1 byte":    {"NodeClass", `{role: a, ephemeralStorage: {size: "1"}, ` + terms + `}`, "spec.ephemeralStorage.size"},
		"the largest disk":    {"NodeClass", `{role: a, ephemeralStorage: {size: 59000Gi}, ` + terms + `}`, ""},
		"too many IOPS":       {"NodeClass", `{role: a, ephemeralStorage: {iops: 16001}, ` + terms + `}`, "should be less than or equal to 16000"},
		"a policy":            {"NodeClass", `{role: a, snatPolicy: Never, ` + terms + `}`, `supported values: "Random", "Disabled"`},
		"a tag of ours":       {"NodeClass", `{role: a, tags: {karpenter.sh/nodepool: a}, ` + terms + `}`, "restricted key"},
		"an image":            {"NodeClass", `{role: a, amiFamily: AL2023, ` + terms + `}`, `unknown field "spec.amiFamily"`},
		"the defaults":        {"NodePool", autoPool(`requirements: []`), ""},
		"20 days and 24h":     {"NodePool", autoPool(`requirements: [], expireAfter: 480h`), ""},
		"20 days and an hour": {"NodePool", autoPool(`requirements: [], expireAfter: 481h`), tooLong},
		"a longer drain":      {"NodePool", autoPool(`requirements: [], expireAfter: 480h, terminationGracePeriod: 24h1s`), tooLong},
		"never":               {"NodePool", autoPool(`requirements: [], expireAfter: Never`), tooLong},
		"never, Karpenter's":  {"NodePool", oss + `requirements: [], expireAfter: Never}}}`, ""},
		"Karpenter's labels":  {"NodePool", autoPool(`requirements: [{key: karpenter.k8s.aws/instance-category, operator: In, values: [c]}]`), "write eks.amazonaws.com/…"},
		"EKS's labels":        {"NodePool", autoPool(`requirements: [{key: eks.amazonaws.com/instance-category, operator: In, values: [c]}]`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			group := map[string]string{"NodeClass": "eks.amazonaws.com", "NodePool": "karpenter.sh"}[c.kind]
			object := &unstructured.Unstructured{Object: map[string]any{}}
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(c.spec), &spec); err != nil {
				t.Fatal(err)
			}
			object.Object["spec"] = spec
			object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: c.kind})
			object.SetGenerateName("test-")
			err := api.Create(context.Background(), object, client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
			if expire, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "expireAfter"); name ==
				"the defaults" && expire != "336h" {
				t.Errorf("nodes expire after %q by default", expire)
			}
		})
	}
}
