package stories

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// whyLooking are a pod that fits no node, one that could get a node, and somebody else's Node.
const whyLooking = `
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: look}
spec:
  nodeSelector: {team: look}
  containers: [{name: app, image: nginx, resources: {requests: {memory: 90Ti}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: look}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {team: look}
      containers: [{name: app, image: nginx, resources: {requests: {cpu: 500m}}}]
---
apiVersion: v1
kind: Node
metadata: {name: stranger, labels: {node.kubernetes.io/instance-type: m5.large}}
---
apiVersion: v1
kind: Event
metadata: {name: huge.1, namespace: look}
involvedObject: {apiVersion: v1, kind: Pod, namespace: look, name: huge}
type: Warning
reason: Hostile
message: "\e[31mred\e[0m \u202Edesrever <script>alert(1)</script>"
source: {component: nobody}
`

const whyLookingPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: look
  annotations: {nodeless.sh/minimum-saving: "\e]0;title\a <b>lots</b> \u202E"}
spec:
  template:
    metadata: {labels: {team: look}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: look}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
`

// A control plane without a controller, first with Karpenter's kinds, then without. Service accounts that may read
// get answers, those that may not are told what they lack, and nothing is written.
func TestWhyWhereNoControllerRuns(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	c := up(t, "--controller=false", "--audit-log", audit)
	c.kubectl("create", "namespace", "look")
	c.apply(whyLookingPool + "---" + badClass("look", "al2023@latest", "nodeless") + "---" + whyLooking)
	c.eventually(time.Minute, func() error {
		if got := c.phases("look", "web"); got["Pending"] != 1 {
			return fmt.Errorf("pods are %v", got)
		}
		return nil
	})
	nobody, half, viewer := c.looker("nobody"), c.looker("half"), c.looker("viewer")
	c.kubectl("create", "clusterrolebinding", "look-view", "--clusterrole=view", "--serviceaccount=look:nobody")
	c.kubectl("create", "clusterrole", "look-half", "--verb=get,list",
		"--resource=pods,nodes,nodepools.karpenter.sh,ec2nodeclasses.karpenter.k8s.aws,deployments.apps")
	c.kubectl("create", "clusterrolebinding", "look-half", "--clusterrole=look-half", "--serviceaccount=look:half")
	role, err := c.run("rbac", "--view", "--service-account", "look/viewer")
	if err != nil {
		t.Fatalf("rbac: %v\n%s", err, role)
	}
	c.apply(role)
	c.eventually(time.Minute, func() error { // the API server learns of roles with a delay
		for _, l := range []*looker{viewer, half} {
			if out, err := l.asks("why pod/huge -n look --partial"); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	})
	t.Run("by who may look", func(t *testing.T) { (&looker{c.as(t), viewer.kubeconfig}).mayLook() })
	t.Run("by who may look at less", func(t *testing.T) {
		(&looker{c.as(t), half.kubeconfig}).mayLookAtLess()
		l := &looker{c.as(t), nobody.kubeconfig}
		l.wantRefusal("why pod/huge -n look", "not allowed to list nodes, nodepools.karpenter.sh, ", "nodeless rbac --view")
		l.wantRefusal("plan --scale deployment/web=3 -n look", "not allowed to list", "nodeless rbac --view")
		c.as(t).kubectl("create", "clusterrole", "look-nodes", "--verb=get,list", "--resource=nodes")
		c.as(t).kubectl("create", "clusterrolebinding", "look-nodes", "--clusterrole=look-nodes",
			"--serviceaccount=look:nobody")
		c.as(t).eventually(time.Minute, func() error {
			out, err := l.asks("why pod/huge -n look --partial")
			if err != nil || !strings.Contains(out, "the NodePools may not be read") {
				return fmt.Errorf("%v: %s", err, out)
			}
			return nil
		})
	})
	t.Run("by strangers", func(t *testing.T) { c.as(t).strangersStory() })
	c.kubectl("delete", "nodepools,ec2nodeclasses", "--all", "--wait=false")
	crds := strings.Fields(c.kubectl("get", "crds", "-o", "name"))
	c.kubectl(append([]string{"delete", "--wait=false"}, crds...)...)
	c.eventually(2*time.Minute, func() error { // the API server takes long to remove kinds that were never requested
		if left := c.kubectl("get", "crds", "-o", "name"); strings.Contains(left, "karpenter") ||
			strings.Contains(left, "decisionlogs") {
			return errors.New(left)
		}
		return nil
	})
	t.Run("without any kind of Karpenter", func(t *testing.T) {
		l := &looker{c.as(t), viewer.kubeconfig}
		l.eventually(time.Minute, func() error { // the API server serves a deleted kind for a while
			out, err := l.asks("why pod/huge -n look --partial")
			for _, kind := range []string{
				"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws",
			} {
				if !strings.Contains(out, "the cluster has no "+kind) {
					return fmt.Errorf("%s is served: %w\n%s", kind, err, out)
				}
			}
			return l.refusal("why pod/huge -n look", "the cluster has no ", "nodeless crds | kubectl apply", "--partial")
		})
		l.wantRefusal("plan --scale deployment/web=3 -n look", "the cluster has no ", "--partial")
		wantGolden(t, "viewer-pod-no-kinds",
			l.wantAnswer("why pod/huge -n look --partial", "90Ti", "the cluster has no nodepools.karpenter.sh"))
		l.wantAnswer("why node/stranger --partial", "it belongs to no NodeClaim")
		l.wantAnswer("plan --scale deployment/web=3 -n look --partial", "the cluster has no nodepools.karpenter.sh")
	})
	c.stop(syscall.SIGTERM) // so that the log is complete
	wroteNothing(t, audit)
}

func (l *looker) mayLook() {
	answer := l.wantAnswer("why pod/huge -n look", "smallest change", "assumed")
	wantGolden(l.t.(*testing.T), "viewer-pod", answer)
	for _, hostile := range []string{"\x1b", "\u202e", "\a"} {
		for _, question := range []string{
			"why pod/huge -n look", "why pod/huge -n look -o json",
			"why pod/huge -n look -o yaml", "why nodepool/look", "why nodepool/look -o yaml",
		} {
			if out := l.wantAnswer(question); strings.Contains(out, hostile) {
				l.t.Errorf("%s: the answer moves the cursor or turns the text around: %q", question, out)
			}
		}
	}
	if !strings.Contains(answer, `\x1b[31mred\x1b[0m \u202edesrever <script>`) {
		l.t.Errorf("the event is not shown as it is:\n%s", answer)
	}
	l.wantAnswer("why nodepool/look", "it is ready and launches 1 node", `\x1b]0;title\a`)
	l.wantAnswer("why node/stranger", "it belongs to no NodeClaim")
	l.wantAnswer("plan --scale deployment/web=5 -n look", "$", "look")
	l.wantAnswer("plan --delete nodepool/look -n look", "look")
	l.wantRefusal("why pod/nobody -n look", "pod look/nobody not found")
	l.wantRefusal("why node/nobody", "node nobody not found")
}

// mayLookAtLess: the error says what is lacking, and with --partial the rest is answered.
func (l *looker) mayLookAtLess() {
	l.wantRefusal("why pod/huge -n look", "not allowed to list ", "nodeless rbac --view", "--partial")
	l.wantRefusal("plan --scale deployment/web=3 -n look", "not allowed to list ", "--partial")
	lacks := []string{
		"daemonsets", "limitranges", "namespaces", "persistentvolumeclaims", "persistentvolumes",
		"storageclasses", "csinodes", "poddisruptionbudgets", "nodeclaims.karpenter.sh",
	}
	for i := range lacks {
		lacks[i] = "not allowed to list " + lacks[i]
	}
	l.wantAnswer("why pod/huge -n look --partial", append(lacks, "smallest change", "if it requested memory")...)
	l.wantAnswer("plan --scale deployment/web=3 -n look --partial", "not allowed to list ")
}

// strangersStory uses kubeconfigs that are no longer valid.
func (c *cluster) strangersStory() {
	for name, want := range map[string]struct {
		change func(*clientcmdapi.AuthInfo, *clientcmdapi.Cluster)
		words  []string
	}{
		"expired": {
			func(u *clientcmdapi.AuthInfo, _ *clientcmdapi.Cluster) { u.Token = "expired" },
			[]string{"does not accept the credentials", "log in again"},
		},
		"gone": {
			func(_ *clientcmdapi.AuthInfo, k *clientcmdapi.Cluster) { k.Server = "https://127.0.0.1:1" },
			[]string{"https://127.0.0.1:1", "cannot be reached"},
		},
		"another": {func(_ *clientcmdapi.AuthInfo, k *clientcmdapi.Cluster) {
			k.CertificateAuthority, k.CertificateAuthorityData = "", nil
		}, []string{"stale"}},
	} {
		l := c.lookerWith(name, want.change)
		l.wantRefusal("why pod/huge -n look", want.words...)
		l.wantRefusal("plan --scale deployment/web=3 -n look", want.words...)
	}
}
