package stories

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// departed is a node that is removed for some reason, in a pool and a namespace of that name.
type departed struct {
	name        string
	annotations string // of the pool
	template    string // lines of the pool's spec.template.spec
	types       string // of the pool; default m5.large
	spot        bool
	static      bool
	why         string // the reason as reported once it is removed
	leave       func(c *cluster, claim *karpv1.NodeClaim)
}

var whyDeparted = []departed{
	{
		name: "drifted", why: "(Drifted)", leave: func(c *cluster, _ *karpv1.NodeClaim) {
			c.kubectl("patch", "nodepool", "drifted", "--type", "merge", "-p",
				`{"spec":{"template":{"metadata":{"labels":{"tier":"new"}}}}}`)
		},
	},
	{
		name: "overprovisioned", static: true, why: "(Overprovisioned)", leave: func(c *cluster, _ *karpv1.NodeClaim) {
			c.kubectl("patch", "nodepool", "overprovisioned", "--type", "merge", "-p", `{"spec":{"replicas":0}}`)
		},
	},
	{
		name: "crowded-out", annotations: `nodeless.sh/make-room-for-daemonsets: "true"`, types: "m5.large, m5.xlarge",
		why:   "(DaemonSetCrowdedOut)",
		leave: func(c *cluster, _ *karpv1.NodeClaim) { c.apply(daemonSet("crowded-out", "1000m")) },
	},
	{name: "expired", template: "expireAfter: 60s", why: "(Expired)"},
	{
		name: "deleted", why: "(Deleted)", leave: func(c *cluster, claim *karpv1.NodeClaim) {
			c.kubectl("delete", "nodeclaim", claim.Name, "--wait=false")
		},
	},
	{
		name: "node-deleted", why: "(Deleted)", leave: func(c *cluster, claim *karpv1.NodeClaim) {
			c.kubectl("delete", "node", claim.Status.NodeName, "--wait=false")
		},
	},
	{
		name: "pool-deleted", why: "(Deleted)", leave: func(c *cluster, _ *karpv1.NodeClaim) {
			c.kubectl("delete", "nodepool", "pool-deleted", "--wait=false")
		},
	},
	{
		name: "interrupted", spot: true, why: "(Interrupted)", leave: func(c *cluster, claim *karpv1.NodeClaim) {
			if err := c.admin("POST", "/_nodeless/interrupt",
				map[string]any{"instanceId": path.Base(claim.Status.ProviderID)}, nil); err != nil {
				c.t.Fatal(err)
			}
		},
	},
	{
		name: "forced", template: "terminationGracePeriod: 3s", why: "(Deleted)",
		leave: func(c *cluster, claim *karpv1.NodeClaim) {
			_, pod := c.whereIs("forced")
			c.kubectl("-n", "forced", "annotate", "pod", pod, "karpenter.sh/do-not-disrupt=true")
			c.kubectl("delete", "nodeclaim", claim.Name, "--wait=false")
		},
	},
}

// departures causes the removal of a node for each of the reasons, waits until they are removed, and returns the
// names of their Nodes.
func (c *cluster) departures() []string {
	var manifests []string
	for _, d := range whyDeparted {
		c.kubectl("create", "namespace", d.name)
		p := (&kept{
			name: d.name, disruption: "{consolidateAfter: Never}", annotations: d.annotations, types: d.types,
			spot: d.spot, replicas: d.static,
		}).pool()
		p = strings.Replace(p, ofTemplate, ofTemplate+"      "+d.template+"\n", 1)
		manifests = append(manifests, p+apart(d.name, "web", "1500m", 1, false))
	}
	c.apply(strings.Join(manifests, "---"))
	var nodes []string
	for _, d := range whyDeparted {
		var claim karpv1.NodeClaim
		c.eventually(2*time.Minute, func() error { // a node that expires may already have its replacement beside it
			if n := c.ready(d.name, "web"); n != 1 {
				return fmt.Errorf("%d pods of %s are ready", n, d.name)
			}
			claims := c.poolClaims(d.name)
			at := slices.IndexFunc(claims, func(claim karpv1.NodeClaim) bool {
				node := claim.Status.NodeName
				return node != "" && slices.ContainsFunc(c.podsOn(node), func(p corev1.Pod) bool { return p.Namespace == d.name })
			})
			if at < 0 {
				return fmt.Errorf("no machine of pool %s has its pod", d.name)
			}
			claim = claims[at]
			return nil
		})
		nodes = append(nodes, claim.Status.NodeName)
		if d.leave != nil {
			d.leave(c, &claim)
		}
	}
	for i, d := range whyDeparted {
		c.eventually(120*time.Second, func() error {
			if out := c.why("node/" + nodes[i]); !strings.Contains(out, "  Gone  ") || !strings.Contains(out, d.why) ||
				fact(out, "terminated") == "" {
				return fmt.Errorf("of a machine that is to go as %s is said:\n%s", d.name, out)
			}
			return nil
		})
		c.kubectl("-n", d.name, "delete", "deployment", "web")
	}
	return nodes
}
