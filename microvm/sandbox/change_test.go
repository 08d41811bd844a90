package sandbox

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

func TestAPodChanges(t *testing.T) { withEachDriver(t, aPodChanges) }

func aPodChanges(t *testing.T, d vmm.Driver) {
	h := open(t, Config{Driver: d})
	const idle = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
	main := container("main", idle)
	main.CPUMilli = 100
	vm := run(t, h, workload("changes", wire.Pod{Containers: []wire.Container{main}}))
	runs := func(name string, restarts int) func(Status) bool {
		return func(s Status) bool {
			for _, c := range s.Pod.Containers {
				if c.Name == name {
					return c.State == wire.Running && c.Restarts == restarts
				}
			}
			return false
		}
	}
	await(t, vm, "the pod", runs("main", 0))
	ctx := within(t)
	in := func(container string, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if _, err := vm.Exec(ctx, container, args, false, Streams{Stdout: &out, Stderr: &out}); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	wantCPU := func(want string) {
		t.Helper()
		if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && inNamespaces(d) {
			return // limits are in cgroup v1 hierarchies, which a container does not see
		}
		if got := in("main", "cat", "/sys/fs/cgroup/cpu.max"); got != want {
			t.Errorf("the container's CPU is %q, want %q", got, want)
		}
	}
	wantCPU("10000 100000")
	half := in("main", "sh", "-c", "echo $(($(cat /proc/sys/kernel/threads-max) / 2))")
	if got := in("main", "cat", "/sys/fs/cgroup/pids.max"); got != half && !inNamespaces(d) {
		t.Errorf("a container may have %s processes, want %s, half of what the guest may have", got, half)
	}
	if err := vm.Resize(ctx, wire.Resize{
		Container: "main", Limits: wire.Limits{CPUMilli: 200, MemoryBytes: 64 << 20},
	}); err != nil {
		t.Fatal(err)
	}
	wantCPU("20000 100000")
	if err := vm.Resize(ctx, wire.Resize{Container: "main", Limits: wire.Limits{MemoryBytes: 4096}}); err == nil ||
		!strings.Contains(err.Error(), "memory limit (4096) below current usage") {
		t.Errorf("less memory than it uses: %v", err)
	}
	wantCPU("20000 100000")
	if err := vm.Resize(ctx, wire.Resize{Container: "main", Restart: true}); err != nil {
		t.Fatal(err)
	}
	await(t, vm, "a restart for new limits", runs("main", 1))
	wantCPU("max 100000")

	debugger := container("debugger", "echo here; "+idle)
	debugger.Kind, debugger.Target = wire.KindEphemeral, "main"
	for range 2 { // the second time it already exists
		if err := vm.Add(ctx, debugger, shared.disk); err != nil {
			t.Fatal(err)
		}
	}
	await(t, vm, "an ephemeral container", runs("debugger", 0))
	if got := in("debugger", "ps", "-o", "args"); strings.Count(got, "trap 'exit 0' TERM") < 2 {
		t.Errorf("it does not see the processes of its target:\n%s", got)
	}
	if err := vm.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got := log(t, vm, logOptions{Container: "debugger"}); got != "here\n" {
		t.Errorf("it logged %q", got)
	}
	other := container("other", idle)
	other.Kind, other.Disk = wire.KindEphemeral, "another"
	if err := vm.Add(ctx, other, shared.disk); err != nil {
		t.Fatal(err)
	}
	await(t, vm, "a container of another image", runs("other", 0))
	if err := vm.Stop(ctx, -1); err != nil {
		t.Fatal(err)
	}
	if s, _ := vm.Status(); s.Failure != "" || s.Pod.Containers[0].State != wire.Terminated {
		t.Errorf("after the stop: %+v", s)
	}
}
