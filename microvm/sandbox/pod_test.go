package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

func TestPodRunsToCompletion(t *testing.T) { withEachDriver(t, aPodRunsToItsEnd) }

func aPodRunsToItsEnd(t *testing.T, d vmm.Driver) {
	h := open(t, Config{Driver: d})
	first := container("first", "echo from init > /shared/note; echo init is done")
	first.Kind = wire.KindInit
	first.Mounts = []wire.Mount{{Volume: "shared", Path: "/shared"}}
	main := container("main", `cat /shared/note /conf/key; echo user $(id -u) groups $(id -G); echo $GREETING; hostname; pwd; echo oops >&2
		touch /conf/x 2>/dev/null || echo read-only; [ -e /dev/vda ] || echo no disks
		ulimit -Hn; echo why > /dev/termination-log; exit 3`)
	main.User = wire.User{UID: 65534, GID: 65534, Groups: []int64{77, 4242}}
	main.Env = []string{"GREETING=good day"}
	main.WorkingDir = "/tmp/made"
	main.Mounts = []wire.Mount{
		{Volume: "shared", Path: "/shared", ReadOnly: true},
		{Volume: "conf", Path: "/conf", ReadOnly: true},
	}
	main.TerminationMessagePath = "/dev/termination-log"
	missing := container("missing", "")
	missing.Args = []string{"/no/such/program"}
	w := workload("ends", wire.Pod{
		Containers: []wire.Container{first, main, missing},
		Volumes: []wire.Volume{
			{Name: "shared"},
			{Name: "conf", Projected: true, Files: []wire.File{{Path: "key", Mode: 0o444, Data: []byte("value\n")}}},
		},
	})
	w.ScratchBytes = 1 << 30
	vm := run(t, h, w)
	s := await(t, vm, "the pod's end", ended)
	if s.Failure != "" || !s.Pod.Initialized || len(s.Pod.Containers) != 3 {
		t.Fatalf("%+v", s)
	}
	noneOpen(t, h) // the VM is still referenced, so the garbage collector has not closed its files
	exits := ""
	for _, c := range s.Pod.Containers {
		exits += fmt.Sprintf("%s %s %d %s\n", c.Name, c.Exit.Reason, c.Exit.Code, c.Exit.Message)
	}
	if want := "first Completed 0 \nmain Error 3 why\n\nmissing StartError 128 exec: \"/no/such/program\": no such file or directory\n"; exits != want {
		t.Errorf("containers ended as\n%s, want\n%s", exits, want)
	}
	want := "from init\nvalue\nuser 65534 groups 65534 77 4242\ngood day\nends\n/tmp/made\noops\nread-only\nno disks\n" +
		hardLimit(t, d)
	if got := log(t, vm, logOptions{Container: "main"}); sorted(got) != sorted(want) {
		t.Errorf("main logged\n%s, want\n%s", got, want)
	}
	if !inNamespaces(d) && !vm.record.FromTemplate {
		t.Error("the guest was not restored from the template")
	}
}

// hardLimit returns how many files a container may open: as on Fargate, unless this process may not raise its own
// limit.
func hardLimit(t *testing.T, d vmm.Driver) string {
	t.Helper()
	if !inNamespaces(d) {
		return "65535\n"
	}
	limit, err := exec.Command("sh", "-c", "ulimit -n 65535 2>/dev/null; ulimit -Hn").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(limit)
}

// sorted removes the order between standard output and standard error, which are two pipes.
func sorted(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		for j := i; j > 0 && lines[j] < lines[j-1]; j-- {
			lines[j], lines[j-1] = lines[j-1], lines[j]
		}
	}
	return strings.Join(lines, "\n")
}

func TestPodRequests(t *testing.T) { withEachDriver(t, aPodIsUsed) }

func aPodIsUsed(t *testing.T, d vmm.Driver) {
	h := open(t, Config{Driver: d})
	main := container("main",
		`trap 'echo bye; exit 9' TERM; mkdir -p /www; echo page > /www/index.html; httpd -p 8080 -h /www; echo up; while :; do sleep 0.1; done`)
	main.Mounts = []wire.Mount{{Volume: "conf", Path: "/conf"}, {Volume: "conf", Path: "/etc/one", SubPath: "key"}}
	main.ReadinessProbe = &wire.Probe{
		Action: wire.Action{HTTP: &wire.HTTPGet{
			Port: 8080, Path: "/index.html",
			Host: "127.0.0.1",
		}}, Period: 200 * time.Millisecond,
		Timeout: 30 * time.Second, SuccessThreshold: 1, FailureThreshold: 3,
	}
	main.PreStop = &wire.Action{Exec: []string{"sh", "-c", "echo stopping > /proc/1/fd/1"}}
	listener := container("listener", "while read word; do echo got $word; done")
	listener.Stdin, listener.StdinOnce, listener.StopSignal = true, true, int(unix.SIGKILL)
	vm := run(t, h, workload("used", wire.Pod{
		Containers: []wire.Container{main, listener}, RestartPolicy: wire.RestartAlways,
		Volumes: []wire.Volume{{
			Name: "conf", Projected: true,
			Files: []wire.File{{Path: "key", Mode: 0o444, Data: []byte("old")}},
		}},
	}))
	await(t, vm, "ready", func(s Status) bool {
		return len(s.Pod.Containers) == 2 && s.Pod.Containers[0].Ready && s.Pod.Containers[1].Ready
	})
	ctx := within(t)
	exec := func(stdin string, tty bool, args ...string) (string, int) {
		t.Helper()
		var out bytes.Buffer
		streams := Streams{Stdout: &out, Stderr: &out}
		if stdin != "" {
			streams.Stdin = strings.NewReader(stdin)
		}
		code, err := vm.Exec(ctx, "main", args, tty, streams)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), code
	}
	big := strings.Repeat("0123456789abcdef\n", 20_000)
	if got, code := exec(big, false, "cat"); got != big || code != 0 {
		t.Errorf("cat gave %d bytes of %d, code %d", len(got), len(big), code)
	}
	if got, code := exec("", false, "sh", "-c", "echo out; echo err >&2; cat /conf/key /etc/one; exit 4"); code != 4 ||
		sorted(got) != sorted("out\nerr\noldold") {
		t.Errorf("%q, code %d", got, code)
	}
	if got, code := exec("", true, "sh", "-c", "tty; stty size"); code != 0 || !strings.HasPrefix(got, "/dev/pts/") {
		t.Errorf("terminal: %q, code %d", got, code)
	}
	if err := vm.UpdateFiles(ctx,
		wire.Volume{
			Name:  "conf",
			Files: []wire.File{{Path: "key", Mode: 0o444, Data: []byte("new")}, {Path: "sub/b", Mode: 0o444}},
		}); err != nil {
		t.Fatal(err)
	}
	if got, _ := exec("", false, "sh", "-c", "cat /conf/key; ls -A /conf/sub; cat /etc/one"); got != "newb\nold" {
		t.Errorf("after the update %q; a sub-path stays as it was", got)
	}
	var heard bytes.Buffer
	if err := vm.Attach(ctx, "listener",
		Streams{Stdin: strings.NewReader("one\ntwo\n"), Stdout: &heard}); err != nil ||
		heard.String() != "got one\ngot two\n" {
		t.Errorf("attached: %q, %v", heard.String(), err)
	}
	page := forwarded(t, vm)
	if !strings.Contains(page, "200 OK") || !strings.HasSuffix(page, "page\n") {
		t.Errorf("port-forward: %q", page)
	}
	stats, err := vm.Stats(ctx)
	if err != nil || len(stats.Containers) == 0 || stats.Containers[0].Memory.WorkingSet == 0 || stats.CPUNanos == 0 ||
		stats.Memory.Total < 100<<20 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	if _, err := vm.Exec(ctx, "other", []string{"true"}, false, Streams{}); err == nil ||
		!strings.Contains(err.Error(), `container "other" is not in the pod`) {
		t.Errorf("exec in a container that is not there: %v", err)
	}
	if err := vm.Stop(ctx, -1); err != nil {
		t.Fatal(err)
	}
	s, _ := vm.Status()
	if exit := s.Pod.Containers[0].Exit; s.Phase != Ended || s.Failure != "" || exit == nil || exit.Code != 9 {
		t.Errorf("after the stop: %+v", s)
	}
	if got := log(t, vm, logOptions{Container: "main", TailLines: 2}); got != "stopping\nbye\n" {
		t.Errorf("the last words are %q", got)
	}
}

// forwarded sends a request to the pod's web server through a port-forward.
func forwarded(t *testing.T, vm *VM) string {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- vm.PortForward(within(t), 8080, server) }()
	go func() { _, _ = io.WriteString(client, "GET /index.html HTTP/1.0\r\n\r\n") }()
	page, err := io.ReadAll(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// One guest runs many containers, each of which shows one event of a container's life.
func TestContainerLifecycles(t *testing.T) { withEachDriver(t, containersLives) }

func containersLives(t *testing.T, d vmm.Driver) {
	soon := func(a wire.Action, failures int) *wire.Probe {
		return &wire.Probe{
			Action: a, Period: 100 * time.Millisecond, Timeout: 30 * time.Second, SuccessThreshold: 1,
			FailureThreshold: failures,
		}
	}
	sidecar := container("sidecar", "trap 'echo sidecar ends; exit 0' TERM; echo sidecar up; while :; do sleep 0.1; done")
	sidecar.Kind = wire.KindSidecar
	crash := container("crash", "echo run; exit 5")
	// It is sick in its first run only: the pod is stopped when the second one has set its trap.
	sick := container("sick",
		"trap 'exit 7' TERM; echo trapped; mkdir /once/sick 2>/dev/null && touch /sick; while :; do sleep 0.1; done")
	sick.Mounts = []wire.Mount{{Volume: "once", Path: "/once"}}
	// Each probe that fails leaves a process behind that keeps its output open.
	sick.LivenessProbe = soon(wire.Action{
		Exec: []string{"sh", "-c", "[ ! -e /sick ] || { sleep 4713 & echo sick; exit 1; }"},
	}, 2)
	hungry := container("hungry", "x=$(dd if=/dev/zero bs=1M count=24 | tr '\\0' 'x'); echo ${#x}")
	hungry.MemoryBytes = 16 << 20
	vm := run(t, open(t, Config{Driver: d}), workload("lives", wire.Pod{
		Containers: []wire.Container{sidecar, crash, sick, hungry}, Volumes: []wire.Volume{{Name: "once"}},
		RestartPolicy: wire.RestartOnFailure, GracePeriod: patience, // their traps end them long before
	}))
	s := await(t, vm, "all have been restarted", func(s Status) bool {
		return restarted(s, 1) != nil && restarted(s, 2) != nil && restarted(s, 3) != nil
	})
	for i, want := range map[int]string{1: "5 Error", 2: "7 Error", 3: "137 OOMKilled"} {
		if e := restarted(s, i); fmt.Sprint(e.Code, " ", e.Reason) != want {
			t.Errorf("%s ended with %d %s, want %s", s.Pod.Containers[i].Name, e.Code, e.Reason, want)
		}
	}
	await(t, vm, "the crashing one waits", func(s Status) bool {
		return s.Pod.Containers[1].Reason == "CrashLoopBackOff" && strings.HasPrefix(s.Pod.Containers[1].Message, "back-off ")
	})
	recorded(t, vm, "crash BackOff", "sick Unhealthy", "sick Killing")
	awaitLog(t, vm, "sick", "trapped")
	if err := vm.Stop(within(t), -1); err != nil {
		t.Fatal(err)
	}
	if got := log(t, vm, logOptions{Container: "sidecar"}); got != "sidecar up\nsidecar ends\n" {
		t.Errorf("the sidecar logged %q", got)
	}
	if got := log(t, vm, logOptions{Container: "crash", Previous: true}); got != "run\n" {
		t.Errorf("the crashed run before the last logged %q", got)
	}
}

// The limits of a pod hold for all of its containers together, whatever those of each are.
func TestLimitsOfAPod(t *testing.T) { withEachDriver(t, aPodIsLimited) }

func aPodIsLimited(t *testing.T, d vmm.Driver) {
	hungry := container("hungry", "x=$(dd if=/dev/zero bs=1M count=24 | tr '\\0' 'x'); echo ${#x}")
	hungry.MemoryBytes = 64 << 20
	vm := run(t, open(t, Config{Driver: d}), workload("limited", wire.Pod{
		Containers: []wire.Container{hungry, container("other", "exit 3")},
		Limits:     wire.Limits{MemoryBytes: 16 << 20, CPUMilli: 900},
	}))
	s := await(t, vm, "the pod's end", ended)
	for i, want := range []string{"137 OOMKilled", "3 Error"} {
		if e := s.Pod.Containers[i].Exit; fmt.Sprint(e.Code, " ", e.Reason) != want {
			t.Errorf("%s ended with %d %s, want %s", s.Pod.Containers[i].Name, e.Code, e.Reason, want)
		}
	}
}

// restarted returns how the last run of a container ended, nil if it was not restarted.
func restarted(s Status, i int) *wire.Exit {
	if len(s.Pod.Containers) <= i || s.Pod.Containers[i].Restarts == 0 {
		return nil
	}
	return s.Pod.Containers[i].LastExit
}

// recorded checks that there were events, each given as container and reason.
func recorded(t *testing.T, vm *VM, wants ...string) {
	t.Helper()
	said := map[string]bool{}
	for _, e := range vm.TakeEvents() {
		said[e.Container+" "+e.Reason] = true
	}
	for _, want := range wants {
		if !said[want] {
			t.Errorf("no event %q among %v", want, said)
		}
	}
}

// A container whose postStart hook fails is restarted; one that ignores signals is killed after its grace period.
func TestPostStartHookFails(t *testing.T) { withEachDriver(t, aPostStartHookFails) }

func aPostStartHookFails(t *testing.T, d vmm.Driver) {
	hook := container("hook", "while :; do sleep 0.1; done")
	hook.PostStart = &wire.Action{Exec: []string{"false"}}
	vm := run(t, open(t, Config{Driver: d}), workload("hooked", wire.Pod{
		Containers: []wire.Container{hook}, RestartPolicy: wire.RestartOnFailure, GracePeriod: time.Second,
	}))
	s := await(t, vm, "it has been restarted", func(s Status) bool { return restarted(s, 0) != nil })
	if e := restarted(s, 0); e.Code != 137 || e.Reason != "Error" {
		t.Errorf("it ended with %d %s, want 137 Error", e.Code, e.Reason)
	}
	recorded(t, vm, "hook FailedPostStartHook")
}

// A second stop shortens the grace period of the first: the guest kills the containers, and says how they ended.
func TestAStopIsHurried(t *testing.T) { withEachDriver(t, aStopIsHurried) }

func aStopIsHurried(t *testing.T, d vmm.Driver) {
	h := open(t, Config{Driver: d, HangLimit: 2 * patience}) // only the guest can end its pod in time
	vm := run(t, h, workload("hurries", wire.Pod{Containers: []wire.Container{
		container("main", "trap 'echo no' TERM; echo up; while :; do sleep 0.1; done"),
	}}))
	awaitLog(t, vm, "main", "up")
	ctx := within(t)
	first := make(chan error, 1)
	go func() { first <- vm.Stop(ctx, time.Hour) }()
	awaitLog(t, vm, "main", "no")
	if err := errors.Join(vm.Stop(ctx, time.Second), <-first); err != nil {
		t.Fatal(err)
	}
	s, _ := vm.Status()
	if exit := s.Pod.Containers[0].Exit; s.Phase != Ended || s.Failure != "" || exit == nil || exit.Code != 137 {
		t.Errorf("after the stop: %+v", s)
	}
}
