package crds_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/loadbalancer"
	"github.com/nodeless/nodeless/plane/planetest"
)

// The API server's own validation messages for the kinds of the AWS Load Balancer Controller and of EKS Auto Mode,
// verbatim.
func TestKindsOfLoadBalancersAreValidated(t *testing.T) {
	plane := planetest.Start(t)
	api, err := client.New(plane.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := crds.Apply(t.Context(), plane.RESTConfig(), loadbalancer.CRDs()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ spec, want string }{ // want "" = accepted
		"a group's ARN":  {`{targetGroupARN: arn, serviceRef: {name: web, port: 80}}`, ""},
		"a group's name": {`{targetGroupName: web, targetType: ip, ipAddressType: ipv4, serviceRef: {name: web, port: http}}`, ""},
		"no group": {
			`{targetGroupARN: "", serviceRef: {name: web, port: 80}}`,
			"TargetGroupBinding must specify these fields: either TargetGroupARN or TargetGroupName",
		},
		"no Service":        {`{targetGroupARN: arn}`, "spec.serviceRef: Required value"},
		"no name":           {`{targetGroupARN: arn, serviceRef: {port: 80}}`, "spec.serviceRef.name: Required value"},
		"no port":           {`{targetGroupARN: arn, serviceRef: {name: web}}`, "spec.serviceRef.port: Required value"},
		"a port's fraction": {`{targetGroupARN: arn, serviceRef: {name: web, port: 80.5}}`, "spec.serviceRef.port in body must be of type integer,string"},
		"a Lambda": {
			`{targetGroupARN: arn, targetType: lambda, serviceRef: {name: web, port: 80}}`,
			`spec.targetType: Unsupported value: "lambda": supported values: "ip", "instance"`,
		},
		"both families": {
			`{targetGroupARN: arn, ipAddressType: dualstack, serviceRef: {name: web, port: 80}}`,
			`spec.ipAddressType: Unsupported value: "dualstack": supported values: "ipv4", "ipv6"`,
		},
	} {
		t.Run("a TargetGroupBinding: "+name, func(t *testing.T) {
			tryCreate(t, api, "elbv2.k8s.aws/v1beta1", "TargetGroupBinding", c.spec, c.want)
		})
	}
	for name, c := range map[string]struct{ spec, want string }{
		"nothing": {`{}`, ""},
		"all that has an effect": {
			`{scheme: internal, targetType: ip, group: {name: a}, subnets: {ids: [subnet-1]}, tags: [{key: a, value: b}],
			loadBalancerAttributes: [{key: a, value: b}]}`, "",
		},
		"what has no effect":    {`{ipAddressType: dualstack, inboundCIDRs: [10.0.0.0/8, "::/0"]}`, ""},
		"a scheme":              {`{scheme: public}`, `spec.scheme: Unsupported value: "public": supported values: "internet-facing", "internal"`},
		"a type of targets":     {`{targetType: pod}`, `spec.targetType: Unsupported value: "pod": supported values: "ip", "instance"`},
		"IPv6 alone":            {`{ipAddressType: ipv6}`, `spec.ipAddressType: Unsupported value: "ipv6": supported values: "ipv4", "dualstack"`},
		"an address":            {`{inboundCIDRs: [10.0.0.1]}`, "spec.inboundCIDRs[0] in body must be of type cidr"},
		"a group without name":  {`{group: {}}`, "spec.group.name: Required value"},
		"no subnets":            {`{subnets: {ids: []}}`, "spec.subnets.ids in body should have at least 1 items"},
		"a subnet's ID":         {`{subnets: {ids: [vpc-1]}}`, "spec.subnets.ids[0] in body should match 'subnet-[0-9a-f]+'"},
		"a tag without a value": {`{tags: [{key: a}]}`, "spec.tags[0].value: Required value"},
		"an attribute's key":    {`{loadBalancerAttributes: [{value: a}]}`, "spec.loadBalancerAttributes[0].key: Required value"},
	} {
		t.Run("IngressClassParams: "+name, func(t *testing.T) {
			for _, version := range []string{"elbv2.k8s.aws/v1beta1", "eks.amazonaws.com/v1"} {
				tryCreate(t, api, version, "IngressClassParams", c.spec, c.want)
			}
		})
	}
	const lbc, auto = "elbv2.k8s.aws/v1beta1", "eks.amazonaws.com/v1"
	for name, c := range map[string]struct{ version, spec, want string }{ // where the two differ
		"subnets by tags":      {lbc, `{subnets: {tags: {role: [public]}}}`, ""},
		"no tags":              {lbc, `{subnets: {tags: {}}}`, "spec.subnets.tags in body should have at least 1 properties"},
		"subnets by nothing":   {lbc, `{subnets: {}}`, "must have either `ids` or `tags`"},
		"subnets by both":      {lbc, `{subnets: {ids: [subnet-1], tags: {a: [b]}}}`, "may not have both `ids` and `tags` set"},
		"Auto's tags":          {auto, `{subnets: {matchTags: [{key: role, values: [public]}]}, loadBalancerName: web}`, ""},
		"Auto, no tags":        {auto, `{subnets: {matchTags: []}}`, "spec.subnets.matchTags in body should have at least 1 items"},
		"Auto, a tag's values": {auto, `{subnets: {matchTags: [{key: a}]}}`, "spec.subnets.matchTags[0].values: Required value"},
		"Auto, by nothing":     {auto, `{subnets: {}}`, "must have either `ids` or `matchTags`"},
		"Auto, by both":        {auto, `{subnets: {ids: [subnet-1], matchTags: [{key: a, values: [b]}]}}`, "may not have both `ids` and `matchTags` set"},
		"a long name":          {auto, `{loadBalancerName: ` + strings.Repeat("a", 33) + `}`, "spec.loadBalancerName: Too long: may not be more than 32 bytes"},
	} {
		t.Run("IngressClassParams: "+name, func(t *testing.T) {
			tryCreate(t, api, c.version, "IngressClassParams", c.spec, c.want)
		})
	}
}
