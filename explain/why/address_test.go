package why

import (
	"strings"
	"testing"
)

// An m5.large holds 27 addresses for pods, and its node takes 29 pods unless somebody says otherwise.
func TestWhatHelpsAPodWithoutAnAddress(t *testing.T) {
	for _, c := range []struct {
		what        string
		used, takes int
		want        string
	}{
		{"maxPods is too high", 27, 110, "set spec.kubelet.maxPods of EC2NodeClass default to at most 29"},
		{"the subnet is used up", 12, 29, "add subnets to subnetSelectorTerms of EC2NodeClass default"},
		{"both are too little", 12, 110, "add subnets to subnetSelectorTerms of EC2NodeClass default"},
		{"no aws-node runs there", 27, 29, "aws-node and kube-proxy"},
	} {
		if got := moreAddresses(c.used, 27, c.takes, "EC2NodeClass default"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
