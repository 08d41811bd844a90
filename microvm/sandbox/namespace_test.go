package sandbox

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Whatever ends an agent in namespaces, its containers end with it, and nothing is left on the host.
func TestNamespaceFailures(t *testing.T) {
	for _, fault := range []struct {
		name, says string
		limit      time.Duration
		signal     unix.Signal
	}{
		{"killed", "the virtual machine ended", 0, unix.SIGKILL},
		{"hung", "taken for hung", 5 * time.Second, unix.SIGSTOP},
	} {
		c := Config{Driver: namespaces(t), HangLimit: fault.limit}
		w := workload(fault.name,
			wire.Pod{Containers: []wire.Container{container("main", "sleep 4712 & while :; do sleep 1; done")}})
		w.ScratchBytes = 64 << 20
		vm := running(t, c, w)
		if err := unix.Kill(vm.process.PID(), fault.signal); err != nil {
			t.Fatal(err)
		}
		s := await(t, vm, "the end", ended)
		if exit := s.Pod.Containers[0].Exit; !strings.Contains(s.Failure, fault.says) || exit == nil ||
			exit.Reason != "ContainerStatusUnknown" {
			t.Errorf("status %+v", s)
		}
	}
}

// An agent in the host's cgroup namespace would create its cgroups among the host's own, without limits.
func TestAgentLeavesHostCgroups(t *testing.T) {
	for range 20 {
		if _, err := namespaces(t).Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"/sys/fs/cgroup/agent", "/sys/fs/cgroup/unified/agent"} {
		if err := os.Remove(dir); err == nil {
			t.Errorf("an agent has made %s", dir)
		}
	}
}

// Pods that would have root rights on the host are rejected. What a container does to devices and the kernel does not
// affect the host.
func TestNamespaceRestrictions(t *testing.T) {
	h := open(t, Config{Driver: namespaces(t)})
	privileged := container("privileged", "true")
	privileged.Privileged = true
	admin := container("admin", "true")
	admin.Capabilities = append(admin.Capabilities, "SYS_ADMIN")
	tracer := container("tracer", "true")
	tracer.Capabilities = append(tracer.Capabilities, "SYS_PTRACE")
	main := container("main", `mknod /dev/disk b 7 0 && mknod /disk b 7 0 && mknod /shared/disk b 7 0; head -c 1 /dev/disk /disk /shared/disk >/dev/null 2>&1 || echo no devices
		echo x >/dev/null && head -c 1 /dev/zero | wc -c; date -s 2001-01-01 2>&1 | grep -o "not permitted"
		echo 1 2>/dev/null >/proc/sys/kernel/panic || echo no kernel; mount -t tmpfs none /tmp 2>/dev/null || echo no mounts
		ls -d /devices /enter /disks /pod 2>/dev/null; ps -o pid >/shared/ps; wc -l </shared/ps; hostname; chmod 600 /dev/null; ls -A /sys/firmware; [ ! -d /proc/acpi ] || ls -A /proc/acpi`)
	main.Capabilities = append(main.Capabilities, "MKNOD", "SYS_CHROOT", "FOWNER")
	before, err := os.Stat("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // otherwise other programs would fail, too
		if err := os.Chmod("/dev/null", 0o666); err != nil {
			t.Error(err)
		}
	})
	main.Mounts = []wire.Mount{{Volume: "shared", Path: "/shared"}}
	waits := container("waits", "until [ -e /looked ]; do sleep 0.1; done")
	w := workload("refused", wire.Pod{
		Containers: []wire.Container{privileged, admin, tracer, main, waits},
		Volumes:    []wire.Volume{{Name: "shared"}},
	})
	w.ScratchBytes = 64 << 20
	vm := run(t, h, w)
	await(t, vm, "running", func(s Status) bool {
		return len(s.Pod.Containers) == 5 &&
			s.Pod.Containers[4].State == wire.Running
	})
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", vm.process.PID()))
	if err != nil || !regexp.MustCompile(`(?m) /enter ro,`).Match(mounts) {
		t.Errorf("a container can write to the program that all pods start with: %v\n%s", err, mounts)
	}
	if code, err := vm.Exec(within(t), "waits", []string{"touch", "/looked"}, false, Streams{}); code != 0 || err != nil {
		t.Error(code, err)
	}
	s := await(t, vm, "the end", ended)
	if after, err := os.Stat("/dev/null"); err != nil || after.Mode() != before.Mode() {
		t.Errorf("a container has changed the host's /dev/null: %v, %v", after.Mode(), err)
	}
	for i, says := range []string{
		"container privileged is privileged: in namespaces that is root on the host",
		"container admin has capability SYS_ADMIN", "container tracer has capability SYS_PTRACE",
	} {
		if e := s.Pod.Containers[i].Exit; e == nil || e.Reason != "StartError" || !strings.Contains(e.Message, says) {
			t.Errorf("%+v, want %q", e, says)
		}
	}
	if got := log(t, vm, logOptions{Container: "main"}); got != "no devices\n1\nnot permitted\nno kernel\nno mounts\n3\nrefused\n" {
		t.Errorf("it found %q", got)
	}
	settings := workload("settings",
		wire.Pod{Containers: []wire.Container{container("main", "true")}, Sysctls: map[string]string{"kernel.panic": "1"}})
	if s := await(t, run(t, h, settings), "the end", ended); !strings.Contains(s.Failure,
		"sysctl kernel.panic is of the host's whole kernel") {
		t.Errorf("%+v", s)
	}
}
