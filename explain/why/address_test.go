package why

import (
	"strings"
	"testing"
)

// An m5.large holds 27 addresses for pods, and its node takes 29 pods by default.
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

// Pods on a node that has no IP address for them count as such: they are on a node, but do not run.
func TestAWorkloadCountsPodsWithoutAnAddress(t *testing.T) {
	stuck := PodAnswer{
		Name: "web-1", Verdict: NoAddress, Node: "n1", State: "ContainerCreating", Summary: "it cannot start",
		whole: &Answer{Facts: []Fact{{"what helps", "another class"}}},
	}
	for _, c := range []struct {
		pods []PodAnswer
		want string
	}{
		{[]PodAnswer{stuck}, "1 on nodes that have no IP address for them"},
		{
			[]PodAnswer{{Name: "web-2", Verdict: Placed, Node: "n1"}, stuck, stuck},
			"2 on nodes that have no IP address for them, 1 on nodes",
		},
	} {
		q := &workloadQuestion{question: &question{a: &Answer{Pods: c.pods}}}
		worst := q.count()
		q.groups(worst)
		if q.a.Verdict != NoAddress || q.a.Summary != c.want {
			t.Errorf("%s: %q, want %q", q.a.Verdict, q.a.Summary, c.want)
		}
		if last := q.a.Facts[len(q.a.Facts)-1]; last != stuck.whole.Facts[0] {
			t.Errorf("%+v: want what helps the first such pod", q.a.Facts)
		}
	}
}
