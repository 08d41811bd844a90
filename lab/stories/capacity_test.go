package stories

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Pods arrive one after another while the cheapest types run out of capacity: the next best type is launched at once.
func TestCheapestTypesRunOut(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s")
	launch := func(name string) (instanceType string, took time.Duration) {
		started := time.Now()
		c.kubectl("run", name, "--image=nginx", "--labels=app="+name, "--overrides",
			`{"spec":{"containers":[{"name":"app","image":"nginx","resources":{"requests":{"cpu":"6"}}}]}}`)
		c.eventually(time.Minute, func() error {
			for _, i := range c.claims() {
				if i.Status.ProviderID == "" {
					return fmt.Errorf("claim %s not launched", i.Name)
				}
			}
			if got := c.phases("default", name)["Running"]; got != 1 {
				return fmt.Errorf("pod %s does not run: %v", name, c.phases("default", name))
			}
			return nil
		})
		took = time.Since(started)
		for node := range c.nodesOf("default") {
			if !slices.ContainsFunc(c.podsOn(node.Name), func(p corev1.Pod) bool { return p.Labels["app"] == name }) {
				continue
			}
			instanceType = node.Labels[corev1.LabelInstanceTypeStable]
		}
		return instanceType, took
	}

	first, _ := launch("first")
	for _, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"} {
		if err := c.admin("POST", "/_nodeless/capacity",
			map[string]any{"type": first, "zone": zone, "capacityType": "on-demand", "count": 0}, nil); err != nil {
			t.Logf("no capacity pool in %s: %v", zone, err)
		}
	}
	page, _, _ := strings.Cut(c.Session.Page, "?token=")
	said := func() error {
		_, _, text, err := c.fetch(page + "api/offers")
		if err != nil || !strings.Contains(text, `"backoffKnown":true`) ||
			!strings.Contains(text, `"type":"`+first+`","zone":"us-west-2`) || !strings.Contains(text, `"retryAt"`) {
			return fmt.Errorf("%w: the page does not say that %s ran out: %s", err, first, text)
		}
		return nil
	}
	if _, _, _, err := c.fetch(page + "api/offers"); err != nil { // the first question starts the page's engine
		t.Fatal(err)
	}
	onPage := make(chan error, 1)
	go func() { onPage <- eventually(90*time.Second, said) }() // it is to be seen during the launch: a back-off takes 45 s
	second, took := launch("second")
	if second == first || second == "" {
		t.Errorf("the second machine is a %q although %s ran out", second, first)
	}
	t.Logf("first %s, then it ran out, second %s after %s", first, second, took)
	if err := <-onPage; err != nil {
		t.Fatal(err)
	}
	var claims karpv1.NodeClaimList
	if err := c.List(context.Background(), &claims); err != nil {
		t.Fatal(err)
	}
	if n := len(slices.DeleteFunc(claims.Items, func(x karpv1.NodeClaim) bool { return !x.DeletionTimestamp.IsZero() })); n != 2 {
		t.Errorf("%d claims for two pods, want 2", n)
	}
	c.eventually(time.Minute, func() error {
		var events corev1.EventList
		if err := c.List(context.Background(), &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "InsufficientCapacityError" {
				return nil
			}
		}
		return fmt.Errorf("no event says that capacity ran out")
	})
}

func (c *cluster) podsOn(node string) []corev1.Pod {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods); err != nil {
		c.t.Fatal(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != node })
}
