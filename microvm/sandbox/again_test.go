package sandbox

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// A pod whose VM was killed runs again at the same address. Its run numbers continue, the log of the previous run is
// kept, and containers that have completed do not run again.
func TestRunAgain(t *testing.T) { withEachDriver(t, runAgain) }

func runAgain(t *testing.T, d vmm.Driver) {
	h := open(t, Config{Driver: d})
	w := workload("again", wire.Pod{RestartPolicy: wire.RestartOnFailure, Containers: []wire.Container{
		container("main", "echo a run >/proc/1/fd/1; while :; do sleep 1; done"), container("done", "true"),
	}})
	w.ScratchBytes = 64 << 20
	first := run(t, h, w)
	await(t, first, "one runs, one is done", func(s Status) bool {
		return len(s.Pod.Containers) == 2 && s.Pod.Containers[0].State == wire.Running &&
			s.Pod.Containers[1].State == wire.Terminated
	})
	awaitLog(t, first, "main", "a run")
	w.After = first
	if _, err := h.Run(t.Context(), w); !errors.Is(err, ErrExists) {
		t.Errorf("while the first VM runs: %v", err)
	}
	if err := unix.Kill(first.process.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s := await(t, first, "the end", ended)
	main, done := s.Pod.Containers[0], s.Pod.Containers[1]
	w.Pod.Containers[0].Earlier = &wire.Earlier{Runs: 1, LastExit: main.Exit}
	w.Pod.Containers[1].Earlier = &wire.Earlier{Runs: 1, LastExit: done.Exit, Over: true}
	second := run(t, h, w)
	s = await(t, second, "it runs again",
		func(s Status) bool { return len(s.Pod.Containers) == 2 && s.Pod.Containers[0].State == wire.Running })
	main, done = s.Pod.Containers[0], s.Pod.Containers[1]
	if main.Restarts != 1 || main.LastExit == nil || main.LastExit.Reason != "ContainerStatusUnknown" ||
		done.Restarts != 0 || done.State != wire.Terminated || done.Exit == nil || done.Exit.Code != 0 {
		t.Errorf("%+v", s.Pod.Containers)
	}
	if got := log(t, second, logOptions{Container: "main", Previous: true}); got != "a run\n" {
		t.Errorf("the run before logged %q", got)
	}
	if was, _ := first.Status(); was.Address != s.Address {
		t.Errorf("its address is %q, was %q", s.Address, was.Address)
	}
	if vm, err := h.VM(w.ID); err != nil || vm != second || len(h.VMs()) != 1 {
		t.Errorf("the host knows %v, %v", h.VMs(), err)
	}
}
