package crds_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/plane/planetest"
)

// The API server's own validation messages for a FargateProfile, verbatim.
func TestFargateProfilesAreValidated(t *testing.T) {
	api, err := client.New(planetest.Start(t).RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec string
		want string // "" = accepted
	}{
		"the articles' wildcard": {`{selectors: [{namespace: "study-*"}]}`, ""},
		"all fields":             {`{selectors: [{namespace: a, labels: {"app.*/x": "w?b", y: ""}}], sizing: Exact, engine: TCG, restrictions: None, storage: {ephemeral: 30Gi}, logging: {router: Disabled}, limits: {cpu: 4, memory: 8Gi, pods: 3}}`, ""},
		"no selectors":           {`{}`, "Fargate Profile requires at least one selector."},
		"an empty list":          {`{selectors: []}`, "Fargate Profile requires at least one selector."},
		"no namespace": {
			`{selectors: [{labels: {a: b}}]}`,
			"Fargate Profile must have at least one selector with at least one namespace value.",
		},
		"an empty namespace": {
			`{selectors: [{namespace: ""}]}`,
			"Fargate Profile must have at least one selector with at least one namespace value.",
		},
		"six selectors": {`{selectors: [{namespace: a}, {namespace: b}, {namespace: c}, {namespace: d}, {namespace: e}, {namespace: f}]}`, "spec.selectors: Too many: 6: must have at most 5 items"},
		"six labels": {
			`{selectors: [{namespace: a, labels: {a: x, b: x, c: x, d: x, e: x, f: x}}]}`,
			"must have at most 5",
		},
		"a regular expression": {
			`{selectors: [{namespace: "a[0-9]"}]}`,
			"a namespace consists of lower case letters, digits and '-', and may have the wildcards '*' and '?'",
		},
		"a label that none can have": {
			`{selectors: [{namespace: a, labels: {"a b": c}}]}`,
			"labels consist of letters, digits, '-', '_' and '.', keys also of '/'; both may have the wildcards '*' and '?'",
		},
		"a long value": {
			`{selectors: [{namespace: a, labels: {a: ` + strings.Repeat("x", 64) + `}}]}`,
			"may not be more than 63 bytes",
		},
		"an unknown sizing": {
			`{selectors: [{namespace: a}], sizing: Large}`,
			`spec.sizing: Unsupported value: "Large": supported values: "Fargate", "Exact"`,
		},
		"an unknown engine": {
			`{selectors: [{namespace: a}], engine: QEMU}`,
			`spec.engine: Unsupported value: "QEMU": supported values: "Auto", "KVM", "TCG", "Namespace"`,
		},
		"unknown restrictions": {
			`{selectors: [{namespace: a}], sizing: Exact, restrictions: Some}`,
			`spec.restrictions: Unsupported value: "Some": supported values: "Fargate", "None"`,
		},
		"an unknown log router": {
			`{selectors: [{namespace: a}], logging: {router: Sidecar}}`,
			`spec.logging.router: Unsupported value: "Sidecar": supported values: "ConfigMap", "Disabled"`,
		},
		"privileges on Fargate": {
			`{selectors: [{namespace: a}], restrictions: None}`,
			"restrictions: None needs sizing: Exact; with sizing: Fargate pods are refused as Fargate refuses them",
		},
		"a disk that Fargate has not": {
			`{selectors: [{namespace: a}], storage: {ephemeral: 176Gi}}`,
			"ephemeral storage is above 0 and at most 175Gi",
		},
		"no disk": {
			`{selectors: [{namespace: a}], storage: {ephemeral: "0"}}`,
			"ephemeral storage is above 0 and at most 175Gi",
		},
		"a negative number of pods": {
			`{selectors: [{namespace: a}], limits: {pods: -1}}`,
			"spec.limits.pods: Invalid value: -1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := tryCreate(t, api, "nodeless.sh/v1alpha1", "FargateProfile", c.spec, c.want)
			if s := o.Object["spec"].(map[string]any); name == "the articles' wildcard" &&
				(s["sizing"] != "Fargate" || s["engine"] != "Auto") {
				t.Errorf("defaults are missing: %v", s)
			}
		})
	}
}
