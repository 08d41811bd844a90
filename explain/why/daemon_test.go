package why_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/explain/capture"
)

// unbound records what kube-scheduler says about agent-1; a dump omits it.
func unbound(c *capture.Cluster) {
	pod := c.State.Pod(types.NamespacedName{Namespace: "shop", Name: "agent-1"}).DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "1 node(s) didn't have free ports",
	}}
	c.State.Update(pod)
}

// What a node has free for a DaemonSet's pod does not count that pod, and only a node that has less than the pod
// requests is said to have no room.
func TestWhatIsFreeForADaemonSetsPod(t *testing.T) {
	full := strings.Replace(web, "1500m", "1700m", 1)
	const noRoom = "which has no room for it"
	for requests, c := range map[string]struct{ want, never []string }{
		"300m": {
			[]string{noRoom, "free there  cpu 230m", "annotation nodeless.sh/make-room-for-daemonsets"}, nil,
		},
		"100m": {
			[]string{
				"for node n1, but kube-scheduler has not bound it: 1 node(s) didn't have free ports",
				"free there  cpu 230m",
			},
			[]string{noRoom, "make-room-for-daemonsets"},
		},
	} {
		dump := strings.Replace(idle, "BUDGET", `"1"`, 1) + full + strings.ReplaceAll(agent, "REQUESTS", requests)
		got := asked(t, dump, "pod/agent-1", unbound)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", requests, w, got)
			}
		}
		for _, bad := range c.never {
			if strings.Contains(got, bad) {
				t.Errorf("%s: %q in\n%s", requests, bad, got)
			}
		}
	}
}

func TestAPodOnANodeThatIsNotManagedIsNotEvicted(t *testing.T) {
	parts := strings.Split(idle, "---\n")
	dump := strings.Replace(strings.Join(append(parts[:2:2], parts[3:]...), "---\n"), "BUDGET", `"1"`, 1) + web
	got := asked(t, dump, "pod/web")
	if !strings.Contains(got, "no: Nodeless does not manage its node") || strings.Contains(got, "yes, if") {
		t.Error(got)
	}
}
