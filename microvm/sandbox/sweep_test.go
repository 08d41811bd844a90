package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Machines that are swept away end their pods first, who do what they do at the end. To the next process they are
// lost, so that it may begin the pods anew.
func TestSweptPodsHaveTheirGrace(t *testing.T) { withEachDriver(t, sweptPodsHaveTheirGrace) }

func sweptPodsHaveTheirGrace(t *testing.T, d vmm.Driver) {
	dir := leftBehind(t, d, "swept")
	if n, err := Sweep(within(t), dir); n != 1 || err != nil {
		t.Errorf("%d machines ended, %v", n, err)
	}
	next := open(t, Config{Dir: dir, Driver: d})
	again, err := next.VM(unique("swept"))
	if err != nil {
		t.Fatal(err)
	}
	if got := log(t, again, LogOptions{Container: "c"}); !strings.Contains(got, "farewell") {
		t.Errorf("log %q", got)
	}
	if !again.Lost() {
		t.Error("the next process takes it for a pod that ended by itself")
	}
}

// So has one that is told to end when its next host process has only begun to reach its guest.
func TestPodsTakenUpHaveTheirGrace(t *testing.T) { withEachDriver(t, podsTakenUpHaveTheirGrace) }

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
	if got := log(t, vm, LogOptions{Container: "c"}); got != "ready\nfarewell\n" {
		t.Errorf("log %q", got)
	}
	if s, _ := vm.Status(); s.Failure != "" || s.Pod.Containers[0].Exit.Code != 0 {
		t.Errorf("%+v", s)
	}
}

// A host process that ends while a pod has its grace leaves it the rest.
func TestAGraceOutlivesItsHost(t *testing.T) { withEachDriver(t, aGraceOutlivesItsHost) }

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
	if got := log(t, vm, LogOptions{Container: "c"}); got != "ready\nasked\nfarewell\n" {
		t.Errorf("log %q", got)
	}
}

// leftBehind is the state directory of a host process that has ended, and whose pod has a word to say at its end, in
// container c.
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
