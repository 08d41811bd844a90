package stories

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// finding is an element of the output of `nodeless doctor -o json`.
type finding struct{ Check, Status, Says, Remedy string }

// doctor returns the findings by check, and whether the command succeeded.
func (c *cluster) doctor(args ...string) (map[string]finding, bool) {
	c.t.Helper()
	out, err := c.run(append([]string{"doctor", "-o", "json"}, args...)...)
	var list []finding
	if bad := json.NewDecoder(strings.NewReader(out)).Decode(&list); bad != nil {
		c.t.Fatalf("%v, %v\n%s", err, bad, out)
	}
	found := map[string]finding{}
	for _, f := range list {
		found[f.Check] = f
	}
	return found, err == nil
}

// A cluster is ready, is not ready for a user without permissions, and stops being ready as things break.
func TestTheDoctorSaysWhetherAClusterIsReady(t *testing.T) {
	t.Parallel()
	c := up(t, "--microvms=false", "--page", "", "--boot-time", "1s", "--enforce-iam")
	c.administrator()
	c.eventually(time.Minute, func() error { // until the controller has resolved the node class
		if _, ok := c.doctor("--aws", "--interruption-queue", "nodeless"); !ok {
			out, err := c.run("doctor", "--aws", "--interruption-queue", "nodeless")
			t.Log(out)
			return err
		}
		return nil
	})
	out, err := c.run("doctor", "--aws", "--interruption-queue", "nodeless")
	if lines := strings.Count(out, "\n"); err != nil || lines > 10 {
		t.Errorf("%d lines, %v\n%s", lines, err, out)
	}
	if found, ok := c.doctor("--as", "system:serviceaccount:kube-system:nodeless"); ok ||
		found["permissions"].Status != "failed" {
		t.Errorf("without the role: %+v", found["permissions"])
	}
	c.readyAs("system:serviceaccount:kube-system:nodeless")

	policy, err := c.run("iam", "controller-policy", "--cluster-name", "nodeless", "--region", "us-west-2",
		"--account", "123456789012", "--node-role", "nodeless-node")
	if err != nil {
		t.Fatal(policy)
	}
	c.assume("controller", strings.Replace(policy, `"ec2:TerminateInstances",`, "", 1))
	const role = "arn:aws:iam::123456789012:role/controller"
	found, ok := c.doctor("--aws", "--interruption-queue", "nodeless", "--role", role)
	if f := found["AWS permissions"]; ok || f.Says != role+" lacks ec2:TerminateInstances (DeleteOwn)" {
		t.Errorf("without one permission: %+v", f)
	}
	c.put("controller", policy)
	if found, ok := c.doctor("--aws", "--interruption-queue", "nodeless", "--role", role); !ok {
		t.Errorf("with all permissions: %+v", found)
	}

	c.kubectl("patch", "ec2nodeclass", "default", "--type", "merge", "-p",
		`{"spec":{"subnetSelectorTerms":[{"tags":{"team":"nobody"}}]}}`)
	found, ok = c.doctor("--aws", "--interruption-queue", "elsewhere")
	if ok || found["node classes"].Status != "failed" || found["interruption queue"].Status != "failed" {
		t.Errorf("with a selector that matches nothing, and no queue: %+v", found)
	}
}

// readyAs: with its role, the controller's account has all permissions, and what it may not read is checked all the
// same.
func (c *cluster) readyAs(account string) {
	c.t.Helper()
	c.apply(c.must("rbac"))
	c.eventually(time.Minute, func() error { // the API server learns of roles with a delay
		found, _ := c.doctor("--as", account)
		for _, check := range []string{"Kubernetes", "permissions", "webhooks"} {
			if found[check].Status != "ok" {
				return fmt.Errorf("%+v", found[check])
			}
		}
		return nil
	})
}
