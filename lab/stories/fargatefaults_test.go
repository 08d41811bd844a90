package stories

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const profileForTrials = `apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: trials}
spec:
  sizing: Exact
  storage: {ephemeral: 96Mi}
  selectors: [{namespace: default, labels: {app: trial}}]
`

// trial returns a pod with one container of the given image; more holds further fields of the container.
func trial(name, image, more string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {app: trial}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: %q, resources: {requests: {cpu: 50m, memory: 64Mi}}, %s}
  volumes:
  - {name: settings, configMap: {name: settings, optional: true}}
  - {name: pod, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
`, name, image, more)
}

// waitsFor waits until a pod's container is waiting for one of the reasons, with a message that contains the text.
func (c *cluster) waitsFor(pod, text string, reasons ...string) {
	c.t.Helper()
	c.eventually(patience, func() error {
		p := &corev1.Pod{}
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: pod}, p); err != nil {
			return err
		}
		for _, s := range p.Status.ContainerStatuses {
			for _, reason := range reasons {
				if w := s.State.Waiting; w != nil && w.Reason == reason && strings.Contains(w.Message, text) {
					return nil
				}
			}
		}
		return fmt.Errorf("pod %s: %+v; want %v %q", pod, p.Status.ContainerStatuses, reasons, text)
	})
}

// Failures are reported where users look for them, and those that can be repaired automatically are.
func TestWhatGoesWrongInMicroVMsIsSaid(t *testing.T) {
	c := microVMs(t)
	const image = "example.local/hello:1"
	c.apply(profileForTrials)
	c.breaks()
	c.apply(trial("never", "example.local/absent:1", "imagePullPolicy: Never") +
		trial("nowhere", "127.0.0.1:1/absent:1", "") +
		trial("settings", image, "envFrom: [{configMapRef: {name: settings}}], volumeMounts: [{name: settings, mountPath: /settings}, {name: pod, mountPath: /pod}]"))
	c.waitsFor("never", "not present with pull policy of Never", "ErrImageNeverPull")
	c.waitsFor("nowhere", "cannot be reached", "ErrImagePull", "ImagePullBackOff")
	c.waitsFor("nowhere", "Back-off pulling image", "ImagePullBackOff")
	c.eventually(time.Minute, func() error { // during an attempt to pull it, they say something else
		if out, err := c.run("kubectl", "logs", "nowhere"); err == nil ||
			!strings.Contains(out, "trying and failing to pull image") {
			return fmt.Errorf("logs of a pod without its image: %v %q", err, out)
		}
		return nil
	})
	c.waitsFor("settings", `configmap "settings" not found`, "CreateContainerConfigError")

	c.kubectl("create", "configmap", "settings", "--from-literal=colour=red")
	c.kubectl("wait", "--for=condition=Ready", "pod/settings", "--timeout=240s")
	if got := c.kubectl("exec", "settings", "--", "sh", "-c", "echo $colour; cat /settings/colour"); got != "red\nred" {
		t.Errorf("settings: %q", got)
	}
	c.kubectl("patch", "configmap", "settings", "-p", `{"data":{"colour":"blue"}}`)
	c.kubectl("label", "pod", "settings", "size=large")
	c.eventually(time.Minute, func() error {
		out, err := c.run("kubectl", "exec", "settings", "--", "sh", "-c", "echo $colour; cat /settings/colour /pod/labels")
		if err != nil || !strings.HasPrefix(out, "red\nblue") || !strings.Contains(out, `size="large"`) {
			return fmt.Errorf("%w: %q", err, out)
		}
		return nil
	})

	if err := syscall.Kill(c.pidOf("settings"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.runsAgain("settings", "the virtual machine ended")
	if got := c.kubectl("logs", "settings", "--previous", "--tail=1"); !strings.Contains(got, " settings\n") {
		t.Errorf("the last line of the run before: %q", got)
	}
	if got := c.kubectl("exec", "settings", "--", "cat", "/settings/colour"); got != "blue" {
		t.Errorf("settings after the restart: %q", got)
	}

	c.areBroken()
	c.kubectl("delete", "pods", "--all")
	c.eventually(patience, c.nothingOfMicroVMs)
}
