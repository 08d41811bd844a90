package migrate

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// What cannot be carried over is named, and stays in the user data.
func TestUserDataThatIsNotUnderstoodIsNamed(t *testing.T) {
	config := func(kubelet string) string {
		return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: " + kubelet + "}\n"
	}
	for userData, want := range map[string]string{
		config("{config: {maxPods: many}}"):                                 "sets maxPods in",
		config("{config: {maxPods: 0}}"):                                    "sets maxPods in",
		config("{config: {clusterDNS: {}, cpuCFSQuota: 1}}"):                "sets clusterDNS, cpuCFSQuota in",
		config("{config: {registerWithTaints: [{key: a}]}}"):                "sets registerWithTaints in",
		config("{config: {registerWithTaints: 1, systemReserved: {x: 1}}}"): "sets registerWithTaints, systemReserved in",
		config("{flags: [\"--max-pods={{ .n }}\"]}"):                        "sets --max-pods in",
		config("{config: {maxPods: 1}}") + "---\nmaxPods: 3\n":              "sets maxPods in",
		"[settings.kubernetes]\nmax-pods = \"x\"\nnode-labels = 3\n":        "sets max-pods, node-labels in",
		"[settings.kubernetes.node-taints]\na = \"b\"\n":                    "sets node-taints in",
		"#!/bin/sh\napiclient set kubernetes.node-labels.a=b\n":             "sets kubernetes.node-labels in",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/x-shellscript\n\n" +
			"echo --node-labels=$L\n--B--\n": "sets --node-labels in",
	} {
		group := fmt.Sprintf(`{"nodegroup": {"nodegroupName": "web", "amiType": "AL2023_x86_64_STANDARD",
 "instanceTypes": ["m5.large"], "subnets": ["s"], "nodeRole": "r", "launchTemplate": {"id": "lt-1", "version": "1"}}}
---
{"LaunchTemplateVersions": [{"LaunchTemplateId": "lt-1", "VersionNumber": 1, "LaunchTemplateData": {"UserData": %q}}]}
`, base64.StdEncoding.EncodeToString([]byte(userData)))
		r, _, report := run(t, "group.json", group, Options{})
		fitsTheAPI(t, r)
		if !strings.Contains(report, want) {
			t.Errorf("%s\nlacks %q:\n%s", userData, want, report)
		}
		spec := child(r.Objects[0].Value, "spec")
		if spec["userData"] != userData || spec["kubelet"] != nil {
			t.Errorf("%s\nbecomes %v", userData, spec)
		}
	}
}
