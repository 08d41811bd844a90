package migrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/migrate"
)

const group = `{"nodegroup": {"nodegroupName": "web", "nodegroupArn": "arn:aws:eks:us-west-2:111122223333:nodegroup/demo/web/1",
  "clusterName": "demo", "subnets": ["subnet-1"], "amiType": "AL2023_x86_64_STANDARD", "nodeRole": "arn:aws:iam::111122223333:role/nodes",
  "scalingConfig": {"minSize": 0, "maxSize": 9, "desiredSize": 3}, "instanceTypes": ["m5.large"]}}`

// of returns the cluster of dump.
func of(t *testing.T, nodes int, capacity string) *capture.Cluster {
	t.Helper()
	in := strings.NewReader(dump(nodes, capacity))
	c, err := capture.Load(t.Context(), in, "cluster.yaml", capture.Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dump describes a cluster with nodes of the group, each with a pod that requests half of it, and one pod that fits no
// pool.
func dump(nodes int, capacity string) string {
	var b strings.Builder
	for i := range nodes {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Node
metadata: {name: n%[1]d, uid: n%[1]d, labels: {eks.amazonaws.com/nodegroup: web, eks.amazonaws.com/capacityType: %[2]s, kubernetes.io/os: linux,
  kubernetes.io/arch: amd64, topology.kubernetes.io/zone: us-west-2a, node.kubernetes.io/instance-type: m5.large, tier: old, kubernetes.io/hostname: n%[1]d}}
spec: {providerID: "aws:///us-west-2a/i-%[1]d"}
status:
  capacity: {cpu: "2", memory: 8Gi, pods: "29"}
  allocatable: {cpu: 1930m, memory: 7Gi, pods: "29"}
  conditions: [{type: Ready, status: "True"}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-%[1]d, namespace: shop, uid: p%[1]d, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-abc, uid: rs, controller: true}]}
spec: {nodeName: n%[1]d, containers: [{name: c, image: i, resources: {requests: {cpu: 900m}}}]}
status: {phase: Running}
`, i, capacity)
	}
	b.WriteString(`---
apiVersion: v1
kind: Pod
metadata: {name: pinned, namespace: shop, uid: pinned, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: db, controller: true}]}
spec: {nodeName: n0, nodeSelector: {tier: old}, containers: [{name: c, image: i}]}
status: {phase: Running}
`)
	return b.String()
}

func TestTheBillOfTheSamePods(t *testing.T) {
	in := texts{{migrate.Input{Name: "group.json"}, []byte(group)}}
	for name, c := range map[string]struct {
		nodes    int
		capacity string
		o        migrate.Options
		want     []string
		not      string
	}{
		"fewer nodes do": {4, "ON_DEMAND", migrate.Options{}, []string{
			"today         4 × m5.large on-demand: $280.32 a month\n", "as written    2 × m5.large on-demand: $140.16 a month\n",
			"with --widen  ", "no node       pod shop/pinned: ", "(instances alone, by list prices, spot averaged, of ",
		}, "StaticCapacity"},
		"its size is kept": {4, "ON_DEMAND", migrate.Options{Static: true}, []string{
			"as written    3 × m5.large on-demand", "--feature-gates StaticCapacity=true)",
		}, "not known"},
		"widened already": {2, "ON_DEMAND", migrate.Options{Widen: true}, []string{
			"today         2 × m5.large on-demand: $140.16", "as written    ",
		}, "with --widen"},
		"spot": {2, "SPOT", migrate.Options{}, []string{"today         2 × m5.large spot: $"}, "not known"},
		"prepaid": {2, "CAPACITY_BLOCK", migrate.Options{}, []string{
			"today         2 × m5.large reserved: $0.00 a month\n",
		}, "not known"},
		"no nodes": {0, "", migrate.Options{}, []string{"not known     no node in the cluster is of what is migrated"}, "today"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := in.migrated(c.o)
			if err != nil {
				t.Fatal(err)
			}
			got := compare(t.Context(), of(t, c.nodes, c.capacity), in, c.o, r).text()
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("it lacks %q:\n%s", want, got)
				}
			}
			if strings.Contains(strings.SplitN(got, "\n", 2)[1], c.not) {
				t.Errorf("it has %q:\n%s", c.not, got)
			}
		})
	}
}
