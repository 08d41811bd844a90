package why_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/why"
)

// ofShop returns a pod of Deployment shop/web, with the given lines of its spec.
func ofShop(name, spec string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata:
  name: web-7fb4-%[1]s
  namespace: shop
  uid: u-%[1]s
  labels: {pod-template-hash: 7fb4}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7fb4, uid: rs, controller: true}]
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}], %[2]s}
`, name, spec)
}

// A workload has one answer for all its pods: how many are where, and once why others wait. A suggested launch names
// the architecture that the image must be built for if it differs from the usual one.
func TestAWorkloadHasOneAnswer(t *testing.T) {
	text := strings.Replace(idle, "BUDGET", `"1"`, 1) + ofShop("a", "nodeName: n1") + ofShop("b", "nodeName: n1") +
		ofShop("c", `nodeSelector: {node.kubernetes.io/instance-type: m7g.lareg}`) + ofShop("d",
		`nodeSelector: {node.kubernetes.io/instance-type: m7g.lareg}`)
	c, err := capture.Load(t.Context(), strings.NewReader(text), "shop.yaml", capture.Options{Region: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, question := range []string{"deployment/web", "deployment.apps/web", "replicaset.apps/web-7fb4"} {
		a, text := ask(t, c, question)
		for _, want := range []string{
			"4 pods  2 that no node can take, 2 on nodes", "on 1 node: n1 (2)", "2 such as web-7fb4-c",
			"could be m7g.large (now m7g.lareg)",
			"its image must be built for arm64", "launches m7g.large",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", question, want, text)
			}
		}
		if strings.Count(text, "smallest change") != 1 || a.Verdict != why.Unschedulable || len(a.Pods) != 4 ||
			a.Change == nil || a.Change.Launch == nil {
			t.Errorf("%s: %+v\n%s", question, a, text)
		}
	}
	if _, err := why.Ask(t.Context(), c, model.Policy{},
		why.Subject{Kind: "job", Namespace: "shop", Name: "none"}); err == nil ||
		!strings.Contains(err.Error(), "job shop/none not found") {
		t.Errorf("of a job that is not there: %v", err)
	}
}

// A pool may launch the types that its requirements allow, between the prices of its cheapest and most expensive
// offering.
func TestAPoolSaysWhatItMayLaunch(t *testing.T) {
	c, err := capture.Load(t.Context(), strings.NewReader(strings.Replace(idle, "BUDGET", `"1"`, 1)), "shop.yaml",
		capture.Options{Region: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	got := why.AllOffers(c, model.Policy{}, nil)
	if len(got.Pools) != 1 || got.Backoff {
		t.Fatalf("%+v", got)
	}
	p := got.Pools[0]
	if p.Available == 0 || p.Available > p.Allowed || p.Allowed > p.Offered || p.Cheapest == nil || p.Dearest == nil ||
		p.Cheapest.DollarsPerHour <= 0 || p.Cheapest.DollarsPerHour > p.Dearest.DollarsPerHour || got.Prices == "" ||
		p.ExhaustedOf != 0 {
		t.Errorf("%+v, from %+v to %+v, %q", p, p.Cheapest, p.Dearest, got.Prices)
	}
	// The controller reports that a type has just run out of capacity.
	decided := *c.Snapshot()
	until := decided.Now.Add(time.Minute)
	decided.Pools = slices.Clone(decided.Pools)
	types := slices.Clone(decided.Pools[0].Types)
	for i := range types {
		if types[i].Name == p.Cheapest.Type {
			types[i].Offerings = slices.Clone(types[i].Offerings)
			for j := range types[i].Offerings {
				types[i].Offerings[j].Available, types[i].Offerings[j].RetryAt = false, until
			}
		}
	}
	decided.Pools[0].Types = types
	got = why.AllOffers(c, model.Policy{}, &decided)
	if p = got.Pools[0]; !got.Backoff || p.ExhaustedOf == 0 || p.Exhausted[0].Type != p.Cheapest.Type ||
		!p.Exhausted[0].RetryAt.Equal(until) {
		t.Errorf("%+v", p)
	}
}
