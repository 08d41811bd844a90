package stories

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// The API server accepts the output of `nodeless migrate` for node groups unchanged, and a managed group of this
// region becomes a pool whose nodes run pods.
func TestNodeGroupsBecomePoolsThatWork(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--boot-time", "1s", "--addons=false")
	c.start()
	c.kubectl("create", "namespace", "karpenter") // one of the workloads is in it
	files, _ := filepath.Glob("../../migrate/testdata/*.yaml")
	var all, profiles []map[string]any
	migrated := 0
	for _, file := range files {
		out, err := c.run("migrate", "-f", file, "-o", "json")
		if err != nil {
			continue // it says what the input lacks
		}
		for _, o := range c.objectsOf(out) {
			o["metadata"].(map[string]any)["name"] = fmt.Sprintf("migrated-%d", len(all)+len(profiles))
			if o["kind"] == "FargateProfile" { // a profile for kube-system comes with a warning
				profiles = append(profiles, o)
			} else {
				all = append(all, o)
			}
		}
		migrated++
	}
	if migrated < 40 {
		t.Errorf("only %d of %d files became objects", migrated, len(files))
	}
	c.applyList(all, "--dry-run=server", "--warnings-as-errors")
	c.applyList(profiles, "--dry-run=server")

	c.applyList(c.objectsOf(c.migratedGroup()))
	c.kubectl("wait", "--for=condition=Ready", "nodepool/web", "--timeout=240s")
	c.apply(strings.Replace(deploymentIn("web", "shop", 3, "1500m"), "      nodeSelector:",
		"      tolerations: [{key: tier, operator: Exists}]\n      nodeSelector:", 1))
	c.wantPods(time.Minute, "default", "shop", 3)
	got := c.kubectl("get", "nodes", "-l", "tier=web", "-o", "jsonpath={range .items[*]}"+
		"{.metadata.labels['node\\.kubernetes\\.io/instance-type']} {.spec.taints[0].key}={.spec.taints[0].value}\n{end}")
	if want := strings.Repeat("m5.large tier=web\n", 3); got != want {
		t.Errorf("nodes of the group are\n%s\nwant\n%s", got, want)
	}
}

// migratedGroup migrates a managed group of m5.large in a subnet of the region.
func (c *cluster) migratedGroup() string {
	c.t.Helper()
	subnets, err := c.ec2.DescribeSubnets(context.Background(), &ec2.DescribeSubnetsInput{})
	if err != nil || len(subnets.Subnets) == 0 {
		c.t.Fatalf("subnets: %v %v", subnets, err)
	}
	out, err := c.runIn(fmt.Sprintf(`{"nodegroup": {
  "nodegroupName": "web", "nodegroupArn": "arn:aws:eks:us-west-2:111122223333:nodegroup/nodeless/web/1",
  "clusterName": "nodeless", "amiType": "AL2023_x86_64_STANDARD", "capacityType": "ON_DEMAND",
  "instanceTypes": ["m5.large"], "scalingConfig": {"minSize": 1, "maxSize": 4, "desiredSize": 2},
  "subnets": [%q], "nodeRole": "arn:aws:iam::111122223333:role/nodeless-node",
  "labels": {"tier": "web"}, "taints": [{"key": "tier", "value": "web", "effect": "NO_SCHEDULE"}]}}`,
		*subnets.Subnets[0].SubnetId), "migrate", "-f", "-", "-o", "json")
	if err != nil {
		c.t.Fatalf("migrate: %v\n%s", err, out)
	}
	return out
}

// objectsOf returns the objects in the output of `nodeless migrate -o json`.
func (c *cluster) objectsOf(out string) []map[string]any {
	c.t.Helper()
	var r struct{ Objects []map[string]any }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	return r.Objects
}

func (c *cluster) applyList(items []map[string]any, flags ...string) {
	c.t.Helper()
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		c.t.Fatal(err)
	}
	if out, err := c.runIn(string(list), append([]string{"kubectl", "apply", "-f", "-"}, flags...)...); err != nil {
		c.t.Errorf("kubectl apply %s: %v\n%s\n%s", strings.Join(flags, " "), err, out, list)
	}
}
