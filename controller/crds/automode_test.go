package crds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// class, storage and networking return a NodeClass's spec with the given fields, selecting one with the given terms.
func class(rest string) string      { return `{role: a, ` + rest + `, ` + terms + `}` }
func storage(rest string) string    { return class(`ephemeralStorage: {` + rest + `}`) }
func networking(rest string) string { return class(`advancedNetworking: {` + rest + `}`) }
func selecting(subnets, groups string) string {
	return `{role: a, subnetSelectorTerms: [` + subnets + `], securityGroupSelectorTerms: [` + groups + `]}`
}

// list returns n items of a list in YAML; format gets their numbers.
func list(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ", ")
}

// tryCreate creates an object in a dry run and fails the test unless the API server refuses it with the given text, or
// accepts it if that is empty. The object then has its defaults.
func tryCreate(t *testing.T, api client.Client, version, kind, spec, want string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	o.Object["spec"] = fields
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace("default") // has no effect on kinds of the cluster
	o.SetGenerateName("test-")
	err := api.Create(context.Background(), o, client.DryRunAll, client.FieldValidation("Strict"))
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v\nwant %s", err, want)
	}
	return o
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
		"a role":               {"NodeClass", `{role: nodes, ` + terms + `}`, ""},
		"neither":              {"NodeClass", `{` + terms + `}`, "must specify exactly one of ['role', 'instanceProfile']"},
		"both":                 {"NodeClass", `{role: a, instanceProfile: b, ` + terms + `}`, "must specify exactly one of"},
		"no subnets":           {"NodeClass", `{role: a, securityGroupSelectorTerms: [{name: a}]}`, "spec.subnetSelectorTerms: Required value"},
		"an empty term":        {"NodeClass", `{role: a, subnetSelectorTerms: [{}], securityGroupSelectorTerms: [{name: a}]}`, "expected exactly one of ['tags', 'id']"},
		"a disk of 1 byte":     {"NodeClass", `{role: a, ephemeralStorage: {size: "1"}, ` + terms + `}`, "spec.ephemeralStorage.size"},
		"the largest disk":     {"NodeClass", `{role: a, ephemeralStorage: {size: 59000Gi}, ` + terms + `}`, ""},
		"too many IOPS":        {"NodeClass", `{role: a, ephemeralStorage: {iops: 16001}, ` + terms + `}`, "should be less than or equal to 16000"},
		"a policy":             {"NodeClass", `{role: a, snatPolicy: Never, ` + terms + `}`, `supported values: "Random", "Disabled"`},
		"a tag of ours":        {"NodeClass", `{role: a, tags: {karpenter.sh/nodepool: a}, ` + terms + `}`, "restricted key"},
		"an image":             {"NodeClass", `{role: a, amiFamily: AL2023, ` + terms + `}`, `unknown field "spec.amiFamily"`},
		"slow":                 {"NodeClass", storage(`iops: 2999`), "spec.ephemeralStorage.iops in body should be greater than or equal to 3000"},
		"a narrow disk":        {"NodeClass", storage(`throughput: 124`), "spec.ephemeralStorage.throughput in body should be greater than or equal to 125"},
		"a wide disk":          {"NodeClass", storage(`throughput: 1001`), "spec.ephemeralStorage.throughput in body should be less than or equal to 1000"},
		"too large a disk":     {"NodeClass", storage(`size: 59001Gi`), "spec.ephemeralStorage.size in body should match"},
		"a key without a name": {"NodeClass", storage(`kmsKeyID: ""`), "spec.ephemeralStorage.kmsKeyID in body should be at least 1 chars long"},
		"a long key":           {"NodeClass", storage(`kmsKeyID: ` + strings.Repeat("k", 2049)), "spec.ephemeralStorage.kmsKeyID: Too long: may not be more than 2048 bytes"},
		"reservations":         {"NodeClass", class(`capacityReservationSelectorTerms: [{id: cr-1}, {owner: "444455556666", tags: {team: "*"}}]`), ""},
		"a bad reservation":    {"NodeClass", class(`capacityReservationSelectorTerms: [{id: sg-1}]`), "spec.capacityReservationSelectorTerms[0].id in body should match"},
		"an owner alone":       {"NodeClass", class(`capacityReservationSelectorTerms: [{owner: "444455556666"}]`), "expected exactly one of ['tags', 'id']"},
		"an owner of an ID":    {"NodeClass", class(`capacityReservationSelectorTerms: [{id: cr-1, owner: "444455556666"}]`), "'id' is mutually exclusive with 'owner'"},
		"a network policy":     {"NodeClass", class(`networkPolicy: Deny`), `spec.networkPolicy: Unsupported value: "Deny": supported values: "DefaultAllow", "DefaultDeny"`},
		"logs of policies":     {"NodeClass", class(`networkPolicyEventLogs: "On"`), `spec.networkPolicyEventLogs: Unsupported value: "On": supported values: "Enabled", "Disabled"`},
		"a prefix of 16":       {"NodeClass", networking(`ipv4PrefixSize: "28"`), `spec.advancedNetworking.ipv4PrefixSize: Unsupported value: "28": supported values: "Auto", "32"`},
		"a proxy by FTP":       {"NodeClass", networking(`httpsProxy: "ftp://proxy"`), "spec.advancedNetworking.httpsProxy in body should match"},
		"a long proxy":         {"NodeClass", networking(`httpsProxy: "http://` + strings.Repeat("p", 249) + `"`), "spec.advancedNetworking.httpsProxy: Too long: may not be more than 255 bytes"},
		"51 exceptions":        {"NodeClass", networking(`noProxy: [` + list(51, "a%d") + `]`), "spec.advancedNetworking.noProxy: Too many: 51: must have at most 50 items"},
		"a long exception":     {"NodeClass", networking(`noProxy: [` + strings.Repeat("p", 256) + `]`), "spec.advancedNetworking.noProxy[0]: Too long: may not be more than 255 bytes"},
		"the most networking":  {"NodeClass", networking(`ipv4PrefixSize: "32", httpsProxy: "http://proxy:3128", noProxy: [` + list(50, "a%d") + `]`), ""},
		"ten bundles":          {"NodeClass", class(`certificateBundles: [` + list(10, "{name: a%d, data: YQ==}") + `]`), ""},
		"eleven bundles":       {"NodeClass", class(`certificateBundles: [` + list(11, "{name: a%d, data: YQ==}") + `]`), "spec.certificateBundles: Too many: 11: must have at most 10 items"},
		"a bundle twice":       {"NodeClass", class(`certificateBundles: [{name: a, data: YQ==}, {name: a, data: YQ==}]`), `spec.certificateBundles[1]: Duplicate value: {"name":"a"}`},
		"a bundle's name":      {"NodeClass", class(`certificateBundles: [{name: a_b, data: YQ==}]`), "spec.certificateBundles[0].name in body should match"},
		"a bundle's long name": {"NodeClass", class(`certificateBundles: [{name: ` + strings.Repeat("a", 65) + `, data: YQ==}]`), "spec.certificateBundles[0].name: Too long: may not be more than 64 bytes"},
		"an empty bundle":      {"NodeClass", class(`certificateBundles: [{name: a, data: ""}]`), "spec.certificateBundles[0].data in body should be at least 1 chars long"},
		"a bundle as text":     {"NodeClass", class(`certificateBundles: [{name: a, data: "-----BEGIN CERTIFICATE-----"}]`), "spec.certificateBundles[0].data in body must be of type byte"},
		"a large bundle":       {"NodeClass", class(`certificateBundles: [{name: a, data: ` + strings.Repeat("YWFh", 16385) + `}]`), "spec.certificateBundles[0].data: Too long: may not be more than 65536 bytes"},
		"a long profile":       {"NodeClass", `{instanceProfile: ` + strings.Repeat("p", 129) + `, ` + terms + `}`, "spec.instanceProfile: Too long: may not be more than 128 bytes"},
		"a long role":          {"NodeClass", `{role: ` + strings.Repeat("r", 2049) + `, ` + terms + `}`, "spec.role: Too long: may not be more than 2048 bytes"},
		"a subnet's ID":        {"NodeClass", selecting(`{id: vpc-1}`, `{name: a}`), "spec.subnetSelectorTerms[0].id in body should match '^subnet-[0-9a-z]+$'"},
		"a group's ID":         {"NodeClass", selecting(`{id: subnet-1}`, `{id: subnet-1}`), "spec.securityGroupSelectorTerms[0].id in body should match '^sg-[0-9a-z]+$'"},
		"a group's long name":  {"NodeClass", selecting(`{id: subnet-1}`, `{name: `+strings.Repeat("n", 256)+`}`), "spec.securityGroupSelectorTerms[0].name: Too long: may not be more than 255 bytes"},
		"a group by two":       {"NodeClass", selecting(`{id: subnet-1}`, `{id: sg-1, name: a}`), "expected exactly one of ['tags', 'id', 'name']"},
		"30 terms":             {"NodeClass", selecting(list(30, "{id: subnet-%d}"), list(30, "{id: sg-%d}")), ""},
		"31 subnets":           {"NodeClass", selecting(list(31, "{id: subnet-%d}"), `{name: a}`), "spec.subnetSelectorTerms: Too many: 31: must have at most 30 items"},
		"31 groups":            {"NodeClass", selecting(`{id: subnet-1}`, list(31, "{id: sg-%d}")), "spec.securityGroupSelectorTerms: Too many: 31: must have at most 30 items"},
		"21 tags of subnets":   {"NodeClass", selecting(`{tags: {`+list(21, "a%d: b")+`}}`, `{name: a}`), "spec.subnetSelectorTerms[0].tags: Too many: 21: must have at most 20 items"},
		"50 tags":              {"NodeClass", class(`tags: {` + list(50, "a%d: b") + `}`), ""},
		"51 tags":              {"NodeClass", class(`tags: {` + list(51, "a%d: b") + `}`), "spec.tags: Too many: 51: must have at most 50 items"},
		"a tag without a key":  {"NodeClass", class(`tags: {"": b}`), "empty tag keys are not allowed"},
		"the defaults":         {"NodePool", autoPool(`requirements: []`), ""},
		"20 days and 24h":      {"NodePool", autoPool(`requirements: [], expireAfter: 480h`), ""},
		"20 days and an hour":  {"NodePool", autoPool(`requirements: [], expireAfter: 481h`), tooLong},
		"a longer drain":       {"NodePool", autoPool(`requirements: [], expireAfter: 480h, terminationGracePeriod: 24h1s`), tooLong},
		"never":                {"NodePool", autoPool(`requirements: [], expireAfter: Never`), tooLong},
		"never, Karpenter's":   {"NodePool", oss + `requirements: [], expireAfter: Never}}}`, ""},
		"Karpenter's labels":   {"NodePool", autoPool(`requirements: [{key: karpenter.k8s.aws/instance-category, operator: In, values: [c]}]`), "write eks.amazonaws.com/…"},
		"EKS's labels":         {"NodePool", autoPool(`requirements: [{key: eks.amazonaws.com/instance-category, operator: In, values: [c]}]`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			group := map[string]string{"NodeClass": "eks.amazonaws.com", "NodePool": "karpenter.sh"}[c.kind]
			object := tryCreate(t, api, group+"/v1", c.kind, c.spec, c.want)
			if expire, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "expireAfter"); name ==
				"the defaults" && expire != "336h" {
				t.Errorf("nodes expire after %q by default", expire)
			}
		})
	}
}
