package stories

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// partly are pods of which only a part can run at first: some containers refer to ConfigMaps and an image that do not
// exist.
const partly = `
apiVersion: v1
kind: ConfigMap
metadata: {name: colours, namespace: default}
data: {colour: red}
---
apiVersion: v1
kind: Pod
metadata: {name: partly, namespace: default, labels: {app: trial}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: runs
    image: IMAGE
    command: IDLE
    envFrom: [{configMapRef: {name: colours}}]
  - {name: configured, image: IMAGE, command: IDLE, envFrom: [{configMapRef: {name: later}}]}
  - {name: pulled, image: "127.0.0.1:1/absent:1", command: IDLE}
---
apiVersion: v1
kind: Pod
metadata: {name: prepared, namespace: default, labels: {app: trial}}
spec:
  restartPolicy: Never
  initContainers: [{name: init, image: IMAGE, command: [sh, -c, "exit 0"]}]
  containers:
  - {name: ends, image: IMAGE, command: [sh, -c, "exit 0"]}
  - {name: configured, image: IMAGE, command: [sh, -c, "exit 0"], envFrom: [{configMapRef: {name: later}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: deleted, namespace: default, labels: {app: trial}}
spec:
  containers:
  - {name: runs, image: IMAGE, command: IDLE}
  - {name: configured, image: IMAGE, command: IDLE, envFrom: [{configMapRef: {name: never}}]}
`

// What is wrong with one container of a pod holds back no other, as on any node. The container runs when it is put
// right, even if the host's process was killed in between. Each run of a container gets its variables anew.
func TestOneContainersErrorHoldsBackNoOther(t *testing.T) {
	c := microVMs(t)
	c.buildTrialImages()
	c.apply(profileForTrials)
	c.apply(strings.NewReplacer("IMAGE", "example.local/trial:1", "IDLE",
		`[sh, -c, "echo it is $colour; trap 'exit 0' TERM; while :; do sleep 0.2; done"]`).Replace(partly))
	c.isPartly()
	c.podWhen("prepared", states(corev1.PodPending, "init 0 Completed", "ends 0 Completed",
		"configured CreateContainerConfigError"))
	c.podWhen("deleted", states(corev1.PodPending, "runs it runs", "configured CreateContainerConfigError"))
	c.kubectl("delete", "pod", "deleted", "--timeout=240s")

	c.stop(syscall.SIGKILL)
	c.start()
	c.isPartly()
	c.kubectl("create", "configmap", "later", "--from-literal=colour=green")
	c.kubectl("set", "image", "pod/partly", "pulled=example.local/worded:1")
	c.podWhen("partly", states(corev1.PodRunning, "runs it runs", "configured it runs", "pulled it runs"))
	c.eventually(patience, func() error { // a container runs a little before it has written
		got, err := c.run("kubectl", "logs", "partly", "-c", "configured")
		if err == nil && got != "it is green\n" {
			return fmt.Errorf("it logged %q", got)
		}
		return err
	})
	c.podWhen("prepared", states(corev1.PodSucceeded, "init 0 Completed", "ends 0 Completed", "configured 0 Completed"))

	c.kubectl("patch", "configmap", "colours", "-p", `{"data":{"colour":"blue"}}`)
	c.eventually(patience, func() error { // a run may begin before the host knows of the change
		got, err := c.run("kubectl", "logs", "partly", "-c", "runs")
		if err == nil && got != "it is blue\n" {
			_, _ = c.run("kubectl", "exec", "partly", "-c", "runs", "--", "kill", "1") // fails while it waits to run again
			return fmt.Errorf("it logged %q", got)
		}
		return err
	})
	c.kubectl("delete", "pods", "--all")
	c.eventually(patience, c.nothingOfMicroVMs)
}

// isPartly waits until the pod partly runs as far as it can.
func (c *cluster) isPartly() {
	c.t.Helper()
	c.waitsFor("partly", "Back-off pulling image", "ImagePullBackOff")
	c.waitsFor("partly", `configmap "later" not found`, "CreateContainerConfigError")
	c.podWhen("partly", func(p *corev1.Pod) error {
		if s := p.Status.ContainerStatuses[0]; s.State.Running == nil || s.RestartCount > 0 {
			return fmt.Errorf("%+v", s)
		}
		return differ("phase", p.Status.Phase, corev1.PodPending)
	})
}

// states wants a pod in a phase, and its containers as ending describes them.
func states(phase corev1.PodPhase, want ...string) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		var got []string
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			got = append(got, s.Name+" "+ending(s))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("its containers are %q, want %q", got, want)
		}
		return differ("phase", p.Status.Phase, phase)
	}
}
