package stories

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Every mistake is reported where it was made, with the field and what to do.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "0s", "--feature-gates", "NodeOverlay=true")

	t.Run("admission refuses what the schema forbids", func(t *testing.T) {
		for name, tc := range map[string]struct{ requirement, limits, want string }{
			"unknown operator": {"{key: kubernetes.io/arch, operator: Is, values: [amd64]}", "{}", "operator"},
			"In without values": {
				"{key: kubernetes.io/arch, operator: In, values: []}", "{}",
				"must have a value defined",
			},
			"Gt that is no digit": {
				"{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [many]}", "{}",
				"single positive integer",
			},
			"limit that is no quantity": {"{key: kubernetes.io/arch, operator: Exists}", `{cpu: "ten"}`, "limits"},
		} {
			out, err := c.runIn(badPool("bad", tc.requirement, tc.limits), "kubectl", "apply", "-f", "-")
			if err == nil || !strings.Contains(out, tc.want) {
				t.Errorf("%s: error %v, output %q, want a refusal that says %q", name, err, out, tc.want)
			}
		}
	})
	t.Run("a negative limit is a condition", func(t *testing.T) {
		c.apply(badPool("negative", "{key: kubernetes.io/arch, operator: Exists}", `{cpu: "-5"}`))
		c.wantCondition("nodepool", "negative", "ValidationSucceeded", "limits")
	})
	t.Run("a pool whose class is missing", func(t *testing.T) {
		c.apply(strings.ReplaceAll(badPool("lonely", "{key: kubernetes.io/arch, operator: Exists}", "{}"),
			"name: default", "name: nowhere"))
		c.wantCondition("nodepool", "lonely", "NodeClassReady", "nowhere")
	})
	t.Run("a selector that finds nothing", func(t *testing.T) {
		c.apply(badClass("nosubnets", "al2023@latest", "no-such-cluster"))
		c.wantCondition("ec2nodeclass", "nosubnets", "SubnetsReady", "subnetSelectorTerms")
	})
	t.Run("an AMI alias nobody knows", func(t *testing.T) {
		out, err := c.runIn(badClass("badfamily", "gentoo@latest", "nodeless"), "kubectl", "apply", "-f", "-")
		if err == nil || !strings.Contains(out, "family is not supported") {
			t.Errorf("alias of an unknown family: %v %q", err, out)
		}
		c.apply(badClass("badversion", "al2023@v19990101", "nodeless"))
		c.wantCondition("ec2nodeclass", "badversion", "AMIsReady", "al2023@v19990101")
	})
	t.Run("a plan of what cannot work", c.badPlansStory)
	t.Run("a pod that no type can hold", func(t *testing.T) {
		c.kubectl("run", "giant", "--image=nginx", "--overrides",
			`{"spec":{"containers":[{"name":"app","image":"nginx","resources":{"requests":{"memory":"90Ti"}}}]}}`)
		c.wantEvent(time.Minute, "default", "giant", "memory")
		c.kubectl("run", "gpu", "--image=nginx", "--overrides",
			`{"spec":{"containers":[{"name":"app","image":"nginx","resources":{"limits":{"example.com/unicorn":"1"}}}]}}`)
		c.wantEvent(time.Minute, "default", "gpu", "example.com/unicorn")
	})
	t.Run("a choice that nobody knows", func(t *testing.T) {
		for flag, value := range map[string]string{
			"--preference-policy": "Sometimes", "--node-fee": "-1",
			"--move-price": "1e9", "--wait-price": "NaN", "--preference-price": "-0.01",
			"--node-group-auto-discovery": "mig:namePrefix=web",
		} {
			if out, err := c.run("run", "--cluster-name", "x", flag, value); err == nil || !strings.Contains(out, flag) {
				t.Errorf("%s %s: error %v, output %q", flag, value, err, out)
			}
		}
	})
	t.Run("a budget that cannot be", c.badBudgetsStory)
	t.Run("a class that is not ready", c.unreadyClassStory)
	t.Run("launches that fail again and again", c.failingLaunchesStory)
	t.Run("a pool that is deleted while its machines run", c.deletedPoolStory)
	t.Run("messages that nobody can read", c.badMessagesStory)
	t.Run("overlays that contradict each other", c.badOverlaysStory)
	t.Run("it still works", func(t *testing.T) {
		c.kubectl("create", "deployment", "fine", "--image=nginx")
		c.wantPods(2*time.Minute, "default", "fine", 1)
	})
}

func badPool(name, requirement, limits string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  limits: %s
  template:
    metadata: {labels: {only: %s}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [%s]
      taints: [{key: bad-input, effect: NoSchedule}]
`, name, limits, name, requirement)
}

func badClass(name, alias, discovery string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: %s}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: %s}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
`, name, alias, discovery)
}

// wantCondition waits until a condition is False and its message contains a word.
func (c *cluster) wantCondition(kind, name, condition, word string) {
	c.t.Helper()
	path := fmt.Sprintf(`jsonpath={range .status.conditions[?(@.type=="%s")]}{.status} {.message}{end}`, condition)
	c.eventually(time.Minute, func() error {
		out := c.kubectl("get", kind, name, "-o", path)
		if !strings.HasPrefix(out, "False") || !strings.Contains(out, word) {
			return fmt.Errorf("%s %s: %s is %q, want False and %q in the message", kind, name, condition, out, word)
		}
		return nil
	})
}

// A cluster's instances are in its region, so it stays there, whatever the default is. A flag cannot move it.
func TestAClusterStaysInItsRegion(t *testing.T) {
	t.Parallel()
	c := up(t, "--region", "eu-west-1")
	c.stop(syscall.SIGTERM)
	c.args = nil
	c.start()
	if c.Session.Region != "eu-west-1" {
		t.Errorf("started again without --region the cluster is in %s", c.Session.Region)
	}
	c.stop(syscall.SIGTERM)
	if out, err := c.run("up", "--data-dir", c.dir, "--region", "us-east-1"); err == nil ||
		!strings.Contains(out, "eu-west-1") {
		t.Errorf("up in another region: %v %q, want an error that says where the cluster lives", err, out)
	}
	c.start()
}

// badPlansStory: a node class or pool that could launch nothing is an error, without figures; after the class is
// fixed, there is a plan.
func (c *cluster) badPlansStory(t *testing.T) {
	for name, x := range map[string]struct{ manifest, want string }{
		"an image that does not exist": {
			badClass("default", "al2023@v20250501", "nodeless"),
			"(it is the class of NodePool general-purpose",
		},
		"a new class without subnets": {badClass("fresh", "al2023@latest", "no-such-cluster"), "subnetSelectorTerms"},
		"a type that does not exist": {badPool("typo",
			"{key: node.kubernetes.io/instance-type, operator: In, values: [m5.lareg]}", "{}"), "m5.lareg"},
		"a class that does not exist": {strings.ReplaceAll(badPool("lost", "{key: kubernetes.io/arch, operator: Exists}",
			"{}"), "name: default", "name: nowhere"), "nowhere"},
	} {
		more := []string{""}
		if name == "a type that does not exist" {
			more = []string{"", "--detailed-exitcode", "-ojson"}
		}
		for _, more := range more {
			out, err := c.runIn(x.manifest, append([]string{"plan", "-f", "-"}, strings.Fields(more)...)...)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 3 ||
				!strings.HasPrefix(out, "nodeless: plan: this change cannot work: ") || !strings.Contains(out, x.want) ||
				strings.Contains(out, "$") {
				t.Errorf("%s %s: %v, want exit code 3 and %q\n%s", name, more, err, x.want, out)
			}
		}
	}
	if out, err := c.runIn(badClass("badversion", "al2023@latest", "nodeless"), "plan", "-f", "-"); err != nil ||
		!strings.Contains(out, "Costs") {
		t.Errorf("a class that is mended: %v\n%s", err, out)
	}
}
