package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Simulated nodes answer for their kubelets: with what a container would say, or with the reason why not.
func TestSimulatedNodesAnswerKubectl(t *testing.T) {
	c := up(t, "--microvms=false", "--page", "", "--boot-time", "1s")
	c.kubectl("create", "deployment", "web", "--image=nginx")
	c.kubectl("create", "job", "greet", "--image=busybox", "--", "sh", "-c", "echo hello there; sleep 1")
	c.kubectl("rollout", "status", "deployment", "web", "--timeout=60s")
	c.kubectl("wait", "--for=condition=complete", "job/greet", "--timeout=60s")
	node := c.nodes()[0].Name

	if got := c.kubectl("logs", "deployment/web"); !strings.HasPrefix(got, "[simulated] ") || !strings.Contains(got, "image nginx does not run here") {
		t.Errorf("logs of a running pod: %q", got)
	}
	got := c.kubectl("logs", "--follow", "job/greet") // ends, since the pod has
	for _, want := range []string{"[simulated] hello there\n", "[simulated] the pretended process has ended with exit code 0\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("logs of a pod that has ended: %q, without %q", got, want)
		}
	}
	for _, refused := range [][]string{{"exec", "deployment/web", "--", "ls"}, {"attach", "deployment/web"}, {"port-forward", "deployment/web", ":80"}} {
		out, err := c.run(append([]string{"kubectl"}, refused...)...)
		if want := refused[0] + ": pod default/web-"; err == nil || !strings.Contains(out, want) || !strings.Contains(out, "is on a simulated machine, where no container runs") {
			t.Errorf("kubectl %s: %v, %q", strings.Join(refused, " "), err, out)
		}
	}
	for reason, message := range map[string]string{
		"Starting": "Starting kubelet.", "NodeHasSufficientMemory": "Node " + node + " status is now: NodeHasSufficientMemory", "NodeReady": "Node " + node + " status is now: NodeReady",
	} {
		c.wantEvents(fmt.Sprintf("involvedObject.kind=Node,involvedObject.name=%s,reason=%s", node, reason), message)
	}
	c.eventually(time.Minute, func() error {
		instances, err := c.instances()
		if err != nil {
			return err
		}
		i := instances[0]
		if len(i.BlockDeviceMappings) != 1 || *i.BlockDeviceMappings[0].DeviceName != "/dev/xvda" || i.Monitoring == nil || i.Monitoring.State != "disabled" {
			return fmt.Errorf("the instance has the devices %+v and monitoring %+v", i.BlockDeviceMappings, i.Monitoring)
		}
		return nil
	})
}
