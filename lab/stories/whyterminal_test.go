package stories

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
)

// spread is a cluster with a node that a budget keeps, and pods that no node can take.
const spread = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general, uid: p, creationTimestamp: "2026-11-01T10:00:00Z"}
spec:
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 30s
    budgets: [{nodes: "0", schedule: "@daily", duration: 24h}]
  limits: {cpu: "2"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: example.com/team, value: platform, effect: NoSchedule}]
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, c5.large, r5.large]}]
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default, uid: c}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: general-1
  uid: nc
  creationTimestamp: "2026-11-01T10:00:00Z"
  labels: {karpenter.sh/nodepool: general}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status:
  providerID: aws:///us-west-2a/i-1
  nodeName: n1
  conditions:
  - {type: Launched, status: "True"}
  - {type: Registered, status: "True"}
  - {type: Initialized, status: "True", lastTransitionTime: "2026-11-01T10:00:40Z"}
---
apiVersion: v1
kind: Node
metadata:
  name: n1
  uid: n-1
  creationTimestamp: "2026-11-01T10:00:30Z"
  labels: {karpenter.sh/nodepool: general, karpenter.sh/registered: "true", karpenter.sh/initialized: "true",
    karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: us-west-2a,
    node.kubernetes.io/instance-type: m5.large, kubernetes.io/arch: amd64, kubernetes.io/os: linux}
spec: {providerID: "aws:///us-west-2a/i-1", taints: [{key: example.com/team, value: platform, effect: NoSchedule}]}
status:
  allocatable: {cpu: 1930m, memory: 7Gi, pods: "29"}
  capacity: {cpu: "2", memory: 8Gi, pods: "29"}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-01T10:00:40Z",
    lastHeartbeatTime: "2026-11-01T12:00:00Z"}]
---
apiVersion: v1
kind: Pod
metadata:
  name: web-7fb4-a
  namespace: shop
  uid: u
  labels: {pod-template-hash: 7fb4}
  creationTimestamp: "2026-11-01T12:00:00Z"
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7fb4, uid: rs, controller: true}]
spec:
  nodeSelector: {node.kubernetes.io/instance-type: m7g.lareg}
  containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]
`

// On a terminal of 60 columns every line of an answer fits, except for commands, which are to be copied, and single
// words that are too long; and the answer has the same words as on a wide one, in either language, with and without
// colour.
func TestAnswersFitTheTerminal(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	file := filepath.Join(c.home, "cluster.yaml")
	if err := os.WriteFile(file, []byte(spread), 0o600); err != nil {
		t.Fatal(err)
	}
	const columns = 60
	broken := 0
	for _, question := range []string{
		"pod/web-7fb4-a", "deployment/web", "node/n1", "nodeclaim/general-1", "nodepool/general",
	} {
		for _, settings := range [][]string{{"LANG=C", "NO_COLOR=1"}, {"LANG=ko_KR.UTF-8", "NO_COLOR="}} {
			args := []string{"why", question, "-n", "shop", "--from", file}
			narrow, wide := ansi.Strip(c.shownOn(columns, settings, args...)), ansi.Strip(c.shownOn(2000, settings, args...))
			if got, want := strings.Fields(narrow), strings.Fields(wide); !slices.Equal(got, want) {
				t.Errorf("%s %v: other words\n%s\nthan on a wide terminal\n%s", question, settings, narrow, wide)
			}
			for line := range strings.SplitSeq(narrow, "\r\n") {
				long := len(strings.Fields(line)) > 1 && !strings.Contains(line, " kubectl ")
				if n := ansi.StringWidth(line); n > columns && long {
					t.Errorf("%s %v: %d columns: %q", question, settings, n, line)
				}
			}
			broken += strings.Count(narrow, "\n") - strings.Count(wide, "\n")
		}
	}
	if broken < 20 {
		t.Errorf("only %d lines were broken: the answers are too short to show anything", broken)
	}
}

// shownOn runs the binary on a terminal of the given width and returns what it shows.
func (c *cluster) shownOn(columns uint16, settings []string, args ...string) string {
	c.t.Helper()
	us, them, err := openTerminal()
	if err == nil {
		err = unix.IoctlSetWinsize(int(us.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	defer us.Close()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(append(c.environment(), "TERM=xterm"), settings...)
	cmd.Stdout, cmd.Stderr = them, them
	err = cmd.Start()
	_ = them.Close()
	if err != nil {
		c.t.Fatal(err)
	}
	shown, _ := io.ReadAll(us) // ends with EIO when the program closes the terminal
	if err := cmd.Wait(); err != nil {
		c.t.Errorf("%v: %v\n%s", args, err, shown)
	}
	return string(shown)
}
