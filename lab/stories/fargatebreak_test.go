package stories

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// breaks applies pods whose microVMs break, each in its own way: one guest's kernel panics, another guest hangs, and
// a third's disk is filled again and again. One image is corrupt, too. areBroken later checks what is reported, since
// a hung guest is given a minute.
func (c *cluster) breaks() {
	c.t.Helper()
	c.breakImage()
	const image = "example.local/hello:1"
	never := strings.Replace(trial("panics", image, "securityContext: {privileged: true}"), "spec:",
		"spec:\n  restartPolicy: Never", 1)
	unready := strings.Replace(trial("unready", image, ""), "spec:", "spec:\n  restartPolicy: Never\n"+
		"  securityContext: {sysctls: [{name: net.ipv4.ip_local_port_range, value: none}]}", 1)
	c.apply(never + unready + trial("hangs", image, "") + trial("corrupt", "example.local/corrupt:1", "") +
		trial("fills", image, `command: [sh, -c, "dd if=/dev/zero of=/big bs=1M 2>/dev/termination-log; exit 1"]`))
	for _, name := range []string{"hangs", "panics"} {
		c.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout=240s")
	}
	if err := syscall.Kill(c.pidOf("hangs"), syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	if out, err := c.run("kubectl", "exec", "panics", "--", "sh", "-c", "echo c >/proc/sysrq-trigger"); err == nil {
		c.t.Errorf("exec in a guest whose kernel panicked ended well: %s", out)
	}
}

// areBroken checks that status and events say what happened to the pods of breaks, and that nothing of their VMs is
// left.
func (c *cluster) areBroken() {
	c.t.Helper()
	const panicked = "Kernel panic - not syncing: sysrq triggered crash"
	pod := c.podWhen("panics", func(p *corev1.Pod) error { // it is never restarted
		if err := differ("end", fmt.Sprint(p.Status.Phase, " ", p.Status.Reason), "Failed MicroVMFailed"); err != nil ||
			!strings.Contains(p.Status.Message, panicked) {
			return fmt.Errorf("%q: %w", p.Status.Message, err)
		}
		return nil
	})
	if got := ending(pod.Status.ContainerStatuses[0]); !strings.HasPrefix(got, "137 ContainerStatusUnknown") ||
		!strings.Contains(got, panicked) {
		c.t.Errorf("the container of the pod that panicked: %s", got)
	}
	if pid := c.machineProcesses()["microvm-"+string(pod.UID)]; pid != 0 {
		c.t.Errorf("process %d of the pod that panicked is left", pid)
	}
	c.runsAgain("hangs", "taken for hung")
	for name, says := range map[string]string{"panics": panicked, "hangs": "taken for hung"} {
		c.wantEvents("reason=MicroVMFailed,involvedObject.name="+name, says)
	}
	c.podWhen("fills", func(p *corev1.Pod) error { // its guest keeps running
		for _, s := range p.Status.ContainerStatuses {
			if e := s.LastTerminationState.Terminated; e != nil && s.RestartCount > 0 && e.ExitCode == 1 &&
				strings.Contains(e.Message, "No space left on device") {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.ContainerStatuses)
	})
	c.waitsFor("corrupt", "sha256:", "ErrImagePull", "ImagePullBackOff")
	c.waitsFor("unready", "set sysctl net.ipv4.ip_local_port_range", "ContainerCreating") // though it is never restarted
	c.wantEvents("reason=FailedCreatePodSandBox,involvedObject.name=unready", "set sysctl net.ipv4.ip_local_port_range")
	c.eventually(time.Minute, func() error { // one that has just ended may not have been reaped yet
		if z := c.zombies(); len(z) > 0 {
			return fmt.Errorf("processes that ended and were not reaped: %v", z)
		}
		return nil
	})
}

// runsAgain waits until a pod whose VM has ended runs in a new one, with the same address, and says why.
func (c *cluster) runsAgain(name, why string) {
	c.t.Helper()
	pod := c.podWhen(name, func(p *corev1.Pod) error {
		s := p.Status.ContainerStatuses[0]
		if e := s.LastTerminationState.Terminated; s.State.Running == nil || !s.Ready || s.RestartCount != 1 ||
			e == nil || e.ExitCode != 137 ||
			e.Reason != "ContainerStatusUnknown" || !strings.Contains(e.Message, why) || p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s, %+v", p.Status.Phase, s)
		}
		return nil
	})
	c.wantEvents("reason=MicroVMRestarted,involvedObject.name="+name, "started again in a new one")
	if got := c.kubectl("exec", name, "--", "hostname", "-i"); strings.TrimSpace(got) != pod.Status.PodIP {
		c.t.Errorf("pod %s has the address %q, its status says %s", name, got, pod.Status.PodIP)
	}
}

// breakImage creates example.local/corrupt:1, whose layer does not match its digest.
func (c *cluster) breakImage() {
	c.t.Helper()
	dir, layout := c.t.TempDir(), filepath.Join(c.dir, "images", "corrupt")
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(strings.Repeat("content\n", 1000)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if out, err := c.run("image", "build", dir, "--data-dir", c.dir, "--output", layout, "--tag",
		"example.local/corrupt:1", "--", "/file"); err != nil {
		c.t.Fatalf("image build: %v\n%s", err, out)
	}
	blobs, err := filepath.Glob(filepath.Join(layout, "blobs", "sha256", "*"))
	if err != nil || len(blobs) == 0 {
		c.t.Fatalf("no blobs in %s: %v", layout, err)
	}
	for _, path := range blobs {
		b, err := os.ReadFile(path)
		if err != nil {
			c.t.Fatal(err)
		}
		if b[0] == '{' { // a manifest or a configuration
			continue
		}
		b[len(b)/2] ^= 0xff
		if err := os.WriteFile(path, b, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// pidOf returns the process of a pod's microVM.
func (c *cluster) pidOf(pod string) int {
	c.t.Helper()
	p := &corev1.Pod{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: pod}, p); err != nil {
		c.t.Fatal(err)
	}
	pid := c.machineProcesses()["microvm-"+string(p.UID)]
	if pid == 0 {
		c.t.Fatalf("no process of pod %s, %s: %v", pod, p.UID, c.machineProcesses())
	}
	return pid
}

// zombies returns the cluster process's children that have ended and were not reaped, as number and command.
func (c *cluster) zombies() []string {
	var out []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		name, rest, _ := strings.Cut(string(b), ") ") // pid, command in parentheses, state, parent
		if f := strings.Fields(rest); len(f) > 1 && f[0] == "Z" && f[1] == fmt.Sprint(c.cmd.Process.Pid) {
			out = append(out, name+")")
		}
	}
	return out
}
