package stories

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// failingLaunchesStory: all launches of the pool with the highest weight fail, and not for lack of capacity. Its pods
// get nodes of the next pool at once, and the pool and its node class say what is wrong.
func (c *cluster) failingLaunchesStory(t *testing.T) {
	key := "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	if err := c.admin(http.MethodPost, "/_nodeless/key", map[string]any{"key": key, "enabled": false}, nil); err != nil {
		t.Fatal(err)
	}
	disk := "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 20Gi, encrypted: true, kmsKeyID: %q}}]\n"
	for name, tc := range map[string]struct{ class, want string }{
		"refused": {
			"  userData: |\n    #!/bin/bash\n    # " + strings.Repeat("x", 20_000) + "\n",
			"User data is limited to 16384 bytes",
		},
		"dieyoung": {fmt.Sprintf(disk, key), "Client.InvalidKMSKey.InvalidState"},
	} {
		c.apply(badClass(name, "al2023@latest", "nodeless") + tc.class)
		heavy := strings.ReplaceAll(badPool(name, "{key: kubernetes.io/arch, operator: Exists}", "{}"), "name: default",
			"name: "+name)
		c.apply(strings.Replace(heavy, "spec:\n  limits", "spec:\n  weight: 100\n  limits", 1))
		c.kubectl("wait", "nodepool/"+name, "--for=condition=Ready", "--timeout=240s")
		c.kubectl("run", name, "--image=nginx", "--overrides",
			`{"spec":{"tolerations":[{"key":"bad-input","operator":"Exists"}],"containers":[{"name":"app","image":"nginx","resources":{"requests":{"cpu":"3"}}}]}}`)
		c.kubectl("wait", "pod/"+name, "--for=condition=Ready", "--timeout=240s")
		node := c.kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")
		if pool := c.kubectl("get", "node", node, "-o",
			`jsonpath={.metadata.labels.karpenter\.sh/nodepool}`); pool == name || pool == "" {
			t.Errorf("pod %s runs on a node of pool %q", name, pool)
		}
		c.wantCondition("nodepool", name, "LaunchSucceeded", tc.want)
		c.wantCondition("ec2nodeclass", name, "LaunchSucceeded", tc.want)
		c.kubectl("delete", "nodepool", name)
	}
	c.apply(badClass("nokey", "al2023@latest", "nodeless") + fmt.Sprintf(disk, "my-key"))
	c.wantCondition("ec2nodeclass", "nokey", "ValidationSucceeded", "my-key")
	c.kubectl("delete", "pod", "refused", "dieyoung", "--grace-period=0", "--wait=false")
	c.eventually(time.Minute, c.instancesAreClaimsOrNone)
}
