package stories

import (
	"fmt"
	"strings"
	"testing"
)

// Two NodeOverlays of the same weight set different prices for the same instance type. The second reports the
// conflict: with which overlay, about what, and what to do. The first stays in effect. The API server rejects what
// the schema can detect.
func (c *cluster) badOverlaysStory(t *testing.T) {
	overlay := func(name, weight, spec string) string {
		return fmt.Sprintf(`
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: %s}
spec: {weight: %s, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.24xlarge]}], %s}
`, name, weight, spec)
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"a price in words":     {`price: "cheap"`, "price"},
		"cpu of one's own":     {`capacity: {cpu: "1"}`, "spec.capacity"},
		"price and its change": {`price: "1", priceAdjustment: "+10%"`, "price"},
	} {
		if out, err := c.runIn(overlay("refused", "1", tc.spec), "kubectl", "apply", "-f", "-"); err == nil ||
			!strings.Contains(out, tc.want) {
			t.Errorf("%s: error %v, output %q, want a refusal that says %q", name, err, out, tc.want)
		}
	}
	c.apply(overlay("second", "7", `price: "4.5"`))
	c.wantTrue("nodeoverlay", "second", "ValidationSucceeded")
	c.apply(overlay("first", "7", `price: "3.5"`))
	c.wantCondition("nodeoverlay", "first", "ValidationSucceeded",
		`NodeOverlay "second" of the same weight sets the price of m5.24xlarge in NodePool`)
	c.wantCondition("nodeoverlay", "first", "ValidationSucceeded",
		"give them different weights or requirements that exclude each other")
	c.wantTrue("nodeoverlay", "second", "ValidationSucceeded")
	c.kubectl("patch", "nodeoverlay", "first", "--type=merge", "-p", `{"spec":{"weight":8}}`)
	c.wantTrue("nodeoverlay", "first", "ValidationSucceeded")
	c.kubectl("delete", "nodeoverlay", "first", "second")
}

// wantTrue waits until a condition is True.
func (c *cluster) wantTrue(kind, name, condition string) {
	c.t.Helper()
	c.kubectl("wait", "--for=condition="+condition, "--timeout=240s", kind, name)
}
