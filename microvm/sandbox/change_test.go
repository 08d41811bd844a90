package sandbox

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

const idle = "trap 'exit 0' TERM; while :; do sleep 0.1; done"

// runs reports whether a container runs that was restarted this often.
func runs(name string, restarts int) func(Status) bool {
	return func(s Status) bool {
		for _, c := range s.Pod.Containers {
			if c.Name == name {
				return c.State == wire.Running && c.Restarts == restarts
			}
		}
		return false
	}
}

func TestAPodChanges(t *testing.T) { withEachDriver(t, aPodChanges) }

func aPodChanges(t *testing.T, d vmm.Driver) {
	h := open(t, Config{Driver: d})
	main := container("main", idle)
	main.CPUMilli = 100
	vm := run(t, h, workload("changes", wire.Pod{Containers: []wire.Container{main}}))
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
		if err := vm.Add(ctx, debugger, rootOf(debugger)); err != nil {
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
	if err := vm.Add(ctx, other, rootOf(other)); err != nil {
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

// A container that is held back delays no other. It runs once it is supplied, with a disk that the guest has not had, by
// another host process than the one that started the pod. What is supplied for a container that runs is for its next run.
func TestAHeldContainerIsSupplied(t *testing.T) { withEachDriver(t, aHeldContainerIsSupplied) }

func aHeldContainerIsSupplied(t *testing.T, d vmm.Driver) {
	c := Config{Driver: d, Dir: t.TempDir()}
	starts, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	good := container("good", "echo old; "+idle)
	held := wire.Container{
		Name: "held", Kind: wire.KindRegular, Held: &wire.Held{Reason: "ErrImagePull", Message: "no such image"},
	}
	w := workload("held", wire.Pod{
		RestartPolicy: wire.RestartAlways, Containers: []wire.Container{held, good},
	})
	await(t, run(t, starts, w), "the pod", runs("good", 0))
	if err := starts.Close(); err != nil {
		t.Fatal(err)
	}
	vm, err := open(t, c).VM(w.ID)
	if err != nil {
		t.Fatal(err)
	}
	s := await(t, vm, "adopted", runs("good", 0))
	if got := s.Pod.Containers[0]; !got.Held || got.State != wire.Waiting || got.Reason != "ErrImagePull" ||
		got.Message != "no such image" {
		t.Errorf("%+v", got)
	}

	ctx := within(t)
	supplied := container("held", "echo supplied; "+idle)
	supplied.Disk = "another"
	supplied.Mounts = []wire.Mount{{Volume: "image", Disk: "third", Path: "/image"}}
	for range 2 { // the host did not hear of the first time
		if err := vm.Supply(ctx, supplied, rootOf(supplied)); err != nil {
			t.Fatal(err)
		}
	}
	s = await(t, vm, "the container that was held", runs("held", 0))
	if s.Pod.Containers[0].Held {
		t.Errorf("%+v", s.Pod.Containers[0])
	}
	awaitLog(t, vm, "held", "supplied")
	for path, want := range map[string]int{"/bin/busybox": 0, "/image/bin/busybox": 126} { // nothing of it is executed
		if code, err := vm.Exec(ctx, "held", []string{"sh", "-c", path + " true"}, false, Streams{}); code != want ||
			err != nil {
			t.Errorf("%s: %d, %v", path, code, err)
		}
	}

	good.Args[2] = "echo new; " + idle
	if err := vm.Supply(ctx, good, nil); err != nil {
		t.Fatal(err)
	}
	if code, err := vm.Exec(ctx, "good", []string{"kill", "1"}, false, Streams{}); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	await(t, vm, "its next run", runs("good", 1))
	awaitLog(t, vm, "good", "new")
	if err := vm.Stop(ctx, -1); err != nil {
		t.Fatal(err)
	}
}

// A pod is stopped at once while a container is held back.
func TestAPodIsStoppedWhileAContainerIsHeld(t *testing.T) {
	held := wire.Container{Name: "held", Kind: wire.KindInit, Held: &wire.Held{Reason: "CreateContainerConfigError"}}
	vm := run(t, open(t, Config{}), workload("stopped", wire.Pod{
		Containers: []wire.Container{held, container("main", idle)},
	}))
	await(t, vm, "held", func(s Status) bool {
		return len(s.Pod.Containers) > 0 && s.Pod.Containers[0].Reason == "CreateContainerConfigError"
	})
	if err := vm.Stop(within(t), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	s, _ := vm.Status()
	for _, c := range s.Pod.Containers {
		if !s.Pod.Done || s.Pod.Initialized || c.State != wire.Waiting {
			t.Errorf("%+v", c)
		}
	}
}
