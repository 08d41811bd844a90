package stories

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// changing is a pod that is resized while it runs. By its resizePolicy, one of its containers restarts when its CPU
// changes.
const changing = `
apiVersion: v1
kind: Pod
metadata: {name: changing, namespace: default, labels: {app: trial}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: stays
    image: &image example.local/trial:1
    command: &idle [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.2; done"]
    resources: &limited {requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}
  - name: restarts
    image: *image
    command: *idle
    resources: *limited
    resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]
`

// Pods of profiles change while they run, as on any node: their containers get other resources, and ephemeral
// containers are added, with images that the microVM has and others.
func TestAPodChangesWhileItRuns(t *testing.T) {
	c := microVMs(t)
	c.buildTrialImages()
	c.apply("apiVersion: nodeless.sh/v1alpha1\nkind: FargateProfile\nmetadata: {name: trials}\n" +
		"spec: {sizing: Exact, selectors: [{namespace: default, labels: {app: trial}}]}\n")
	c.apply(changing)
	c.podWhen("changing", func(p *corev1.Pod) error { return differ("phase", p.Status.Phase, corev1.PodRunning) })

	c.resizes("stays", "cpu", "70m", "200m", "20000 100000", 0)
	c.resizes("restarts", "cpu", "70m", "300m", "30000 100000", 1)
	c.resizes("stays", "memory", "65Mi", "65Mi", "20000 100000", 0)
	c.resizeSays("10Ki", corev1.PodResizeInProgress, "Error")
	if out, err := c.run(append([]string{"kubectl"}, c.resizing("stays", "memory", "64Gi", "64Gi")...)...); err == nil ||
		!strings.Contains(out, "node didn't have enough allocatable resources: memory") {
		t.Errorf("more memory than the microVM has: %v %s", err, out)
	}
	c.resizes("stays", "memory", "64Mi", "64Mi", "20000 100000", 0)

	for name, image := range map[string]string{"has": "example.local/trial:1", "has-not": "example.local/worded:1"} {
		c.kubectl("debug", "changing", "--image="+image, "--target=restarts", "--container="+name, "--", "sh", "-c",
			"echo it runs; sleep 1000")
		c.podWhen("changing", func(p *corev1.Pod) error {
			for _, s := range p.Status.EphemeralContainerStatuses {
				if s.Name == name && s.State.Running != nil {
					return nil
				}
			}
			return fmt.Errorf("container %s does not run: %+v", name, p.Status.EphemeralContainerStatuses)
		})
		c.eventually(time.Minute, func() error {
			return differ("what container "+name+" logged", c.kubectl("logs", "changing", "-c", name), "it runs\n")
		})
		if got := c.kubectl("exec", "changing", "-c", name, "--", "ps", "-o", "args"); !strings.Contains(got, "trap 'exit 0' TERM") {
			t.Errorf("container %s does not see the processes of its target:\n%s", name, got)
		}
	}
	c.kubectl("delete", "pod", "changing")
	c.eventually(patience, c.nothingOfMicroVMs)
}

// resizing returns kubectl's arguments that change the request and limit of one of the pod's containers.
func (c *cluster) resizing(container, resource, request, limit string) []string {
	return []string{"patch", "pod", "changing", "--subresource=resize", "-p", fmt.Sprintf(
		`{"spec":{"containers":[{"name":%q,"resources":{"requests":{%q:%q},"limits":{%q:%q}}}]}}`, container, resource,
		request, resource, limit)}
}

// resizes resizes a container and checks its status and its own cgroup.
func (c *cluster) resizes(container, resource, request, limit, cpu string, restarts int32) {
	c.t.Helper()
	c.kubectl(c.resizing(container, resource, request, limit)...)
	c.podWhen("changing", func(p *corev1.Pod) error {
		if p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("generation %d was observed, it is %d", p.Status.ObservedGeneration, p.Generation)
		}
		for _, k := range p.Status.Conditions {
			if k.Type == corev1.PodResizePending || k.Type == corev1.PodResizeInProgress {
				return fmt.Errorf("it has the condition %v", k)
			}
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.Name != container {
				continue
			}
			r, name := s.Resources, corev1.ResourceName(resource)
			if r == nil || s.State.Running == nil {
				return fmt.Errorf("container %s is %+v", container, s)
			}
			requests, limits, allocated := r.Requests[name], r.Limits[name], s.AllocatedResources[name]
			got := []string{requests.String(), limits.String(), allocated.String()}
			if want := []string{request, limit, request}; fmt.Sprint(got, s.RestartCount) != fmt.Sprint(want, restarts) {
				return fmt.Errorf("container %s has %v after %d restarts, want %v after %d", container, got, s.RestartCount, want,
					restarts)
			}
		}
		return nil
	})
	c.eventually(time.Minute, func() error {
		return differ("CPU", strings.TrimSpace(c.kubectl("exec", "changing", "-c", container, "--", "cat", "/sys/fs/cgroup/cpu.max")), cpu)
	})
}

// resizeSays checks that a condition of the pod says why its container cannot have that much, or that little, memory.
func (c *cluster) resizeSays(memory string, condition corev1.PodConditionType, text string) {
	c.t.Helper()
	c.kubectl(c.resizing("stays", "memory", memory, memory)...)
	c.podWhen("changing", func(p *corev1.Pod) error {
		for _, k := range p.Status.Conditions {
			if k.Type == condition && strings.Contains(k.Reason+" "+k.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", p.Status.Conditions)
	})
}
