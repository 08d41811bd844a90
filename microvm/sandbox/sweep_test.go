package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Sweep lets pods end within their grace periods. To the next host process the VMs are lost, so that it may start the
// pods again.
func TestSweepGivesGrace(t *testing.T) { withEachDriver(t, sweptPodsHaveTheirGrace) }

func sweptPodsHaveTheirGrace(t *testing.T, d vmm.Driver) {
	dir := leftBehind(t, d, "swept")
	if n, err := Sweep(within(t), dir); n != 1 || err != nil {
		t.Errorf("%d VMs ended, %v", n, err)
	}
	next := open(t, Config{Dir: dir, Driver: d})
	again, err := next.VM(unique("swept"))
	if err != nil {
		t.Fatal(err)
	}
	if got := log(t, again, logOptions{Container: "c"}); !strings.Contains(got, "farewell") {
		t.Errorf("log %q", got)
	}
	if !again.Lost() {
		t.Error("the next process takes it for a pod that ended by itself")
	}
}

// An adopted pod gets its grace period, too, if it is stopped before there is a session with its guest.
func TestAdoptedPodsGetGrace(t *testing.T) { withEachDriver(t, podsTakenUpHaveTheirGrace) }

func podsTakenUpHaveTheirGrace(t *testing.T, d vmm.Driver) {
	dir := leftBehind(t, d, "taken")
	next := open(t, Config{Dir: dir, Driver: d})
	vm, err := next.VM(unique("taken"))
	if err != nil {
		t.Fatal(err)
	}
	if err := vm.Stop(within(t), -1); err != nil {
		t.Fatal(err)
	}
	if got := log(t, vm, logOptions{Container: "c"}); got != "ready\nfarewell\n" {
		t.Errorf("log %q", got)
	}
	if s, _ := vm.Status(); s.Failure != "" || len(s.Pod.Containers) != 1 || s.Pod.Containers[0].Exit.Code != 0 {
		t.Errorf("%+v", s)
	}
}

// A pod keeps the rest of its grace period when its host process ends.
func TestGraceOutlivesHostProcess(t *testing.T) { withEachDriver(t, aGraceOutlivesItsHost) }

func aGraceOutlivesItsHost(t *testing.T, d vmm.Driver) {
	h := open(t, Config{Driver: d})
	vm := run(t, h, workload("lingers", wire.Pod{GracePeriod: patience, Containers: []wire.Container{
		container("c", "trap 'echo asked; until [ -e /go ]; do sleep 0.1; done; echo farewell; exit 0' TERM; echo ready; while :; do sleep 0.1; done"),
	}}))
	awaitLog(t, vm, "c", "ready")
	ctx, leave := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- vm.Stop(ctx, -1) }()
	awaitLog(t, vm, "c", "asked")
	leave()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	if code, err := vm.Exec(within(t), "c", []string{"touch", "/go"}, false, Streams{}); code != 0 || err != nil {
		t.Error(code, err)
	}
	if s := await(t, vm, "the end", ended); s.Failure != "" || s.Pod.Containers[0].Exit.Code != 0 {
		t.Errorf("%+v", s)
	}
	if got := log(t, vm, logOptions{Container: "c"}); got != "ready\nasked\nfarewell\n" {
		t.Errorf("log %q", got)
	}
}

// leftBehind returns the state directory of a host process that has ended. Its pod has a container c, which logs a line
// when it ends.
func leftBehind(t *testing.T, d vmm.Driver, id string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	h, err := Open(Config{Dir: dir, Driver: d})
	if err != nil {
		t.Fatal(err)
	}
	vm := run(t, h, workload(id, wire.Pod{Containers: []wire.Container{
		container("c", "trap 'echo farewell; exit 0' TERM; echo ready; while :; do sleep 0.1; done"),
	}}))
	awaitLog(t, vm, "c", "ready")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}
