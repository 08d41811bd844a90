package guest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Errors do not say what is in the file.
func TestFilesOfVariables(t *testing.T) {
	for _, c := range []struct{ content, want, says string }{
		{"KEY='s3cret'\n", "s3cret", ""},
		{"# KEY='no'\n\n  OTHER='x' # a remark\n\tKEY='two\nlines = # '\nLAST='y'", "two\nlines = # ", ""},
		{"KEY= 's3cret'\n", "", ""},
		{"OTHER= \nKEY='s3cret' \n", "s3cret", ""},
		{" \t\r\nOTHER='x'\r\nKEY='two\r\nlines'\r", "two\nlines", ""},
		{"OTHER='KEY=1'\n", "", ""},
		{"", "", ""},
		{"KEY=s3cret\n", "", "line 1: the value must be enclosed in single quotes"},
		{"KEY=\n", "", "line 1: the value must be enclosed in single quotes"},
		{"OTHER='x\ny'\nKEY='s3cret\n", "", "line 3: the value must be enclosed in single quotes"},
		{"# a remark\nKEY ='s3cret'\n", "", "line 2: not of the form NAME='value'"},
		{"='s3cret'\n", "", "line 1: not of the form NAME='value'"},
		{"\r\ns3cret\n", "", "line 2: not of the form NAME='value'"},
		{"KEY='s3cret' s3cret\n", "", "line 1: unexpected content after the value"},
	} {
		got, err := envValue(c.content, "KEY")
		says := ""
		if err != nil {
			says = err.Error()
		}
		if got != c.want || says != c.says || strings.Contains(says, "s3cret") || strings.Contains(says, "KEY") {
			t.Errorf("%q: %q, %v", c.content, got, err)
		}
	}
}

// What could block the guest, fill its memory or be cut is refused.
func TestWhatIsNoFileOfVariables(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"full": maxEnvFile, "large": maxEnvFile + 1} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	for path, says := range map[string]string{
		"full": "", "large": `"large" has more than 1048576 bytes`, "fifo": `"fifo" is not a regular file`,
		".": `"." is not a regular file`, "none": "no such file", "../x": "escapes",
	} {
		content, err := readEnvFile(dir, path)
		switch {
		case says == "" && (err != nil || len(content) != maxEnvFile):
			t.Errorf("%s: %d bytes, %v", path, len(content), err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %s", path, err, says)
		}
	}
}

// Without an optional value, a variable keeps the one that it had, its mark too.
func TestVariablesWithValuesOfFiles(t *testing.T) {
	optional := func(name, mark, otherwise string) wire.EnvFile {
		return wire.EnvFile{Name: name, Mark: mark, Key: name, Optional: true, Otherwise: otherwise}
	}
	for _, c := range []struct {
		files []wire.EnvFile
		want  string
	}{
		{[]wire.EnvFile{{Name: "THERE", Mark: "<0>", Key: "THERE"}}, "x x<1> A=1 B=<1>x THERE=x"},
		{[]wire.EnvFile{{Name: "A", Mark: "<0>", Key: "THERE"}}, "x x<1> B=<1>x A=x"},
		{[]wire.EnvFile{{Mark: "<0>", Key: "THERE"}}, "x x<1> A=1 B=<1>x"},
		{[]wire.EnvFile{optional("C", "<0>", "$(C)")}, "$(C) $(C)<1> A=1 B=<1>$(C)"},
		{[]wire.EnvFile{optional("A", "<0>", "1")}, "1 1<1> A=1 B=<1>1"},
		{[]wire.EnvFile{optional("A", "<0>", "$(A)")}, "$(A) $(A)<1> A=1 B=<1>$(A)"}, // the image's, which is not expanded
		{
			[]wire.EnvFile{{Name: "A", Mark: "<0>", Key: "THERE"}, optional("A", "<1>", "<0>")},
			"x xx B=xx A=x",
		},
		{
			[]wire.EnvFile{optional("A", "<0>", "1"), {Name: "A", Mark: "<1>", Key: "MARK", Otherwise: "<0>"}},
			"1 1<0> B=<0>1 A=<0>",
		},
		{[]wire.EnvFile{{Name: "A", Mark: "<0>", Path: "env", Key: "NONE"}}, `"NONE" not found in file "env"`},
	} {
		p := newPod(wire.Pod{Containers: []wire.Container{{
			Name: "c", Kind: wire.KindRegular, Args: []string{"<0>", "<0><1>"}, Env: []string{"A=1", "B=<1><0>"},
			EnvFiles: c.files,
		}}}, nil, nil)
		args, env, err := variables(p.containers[0].spec, func(f wire.EnvFile) (string, error) {
			return map[string]string{"THERE": "x", "MARK": "<0>"}[f.Key], nil
		})
		got := strings.Join(slices.Concat(args, env), " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%+v: %s, want %s", c.files, got, c.want)
		}
	}
}

// A variable without a file keeps the container waiting until the pod is stopped.
func TestAContainerWaitsForItsVariables(t *testing.T) {
	spec := wire.Container{
		Name: "c", Kind: wire.KindRegular, Args: []string{"echo", "<0>"},
		EnvFiles: []wire.EnvFile{{Name: "A", Mark: "<0>", Volume: "none", Path: "env", Key: "A"}},
	}
	p := newPod(wire.Pod{Containers: []wire.Container{spec}}, nil, nil)
	p.mu.Lock()
	changed := p.changed
	p.mu.Unlock()
	ended := make(chan bool)
	go func() { ended <- p.containers[0].supervise() }()
	<-changed
	p.mu.Lock()
	s := p.containers[0].status
	p.mu.Unlock()
	if s.State != wire.Waiting || s.Reason != "CreateContainerConfigError" || !strings.Contains(s.Message, "none") {
		t.Errorf("%+v", s)
	}
	p.beginStop(0)
	if <-ended {
		t.Error("it has succeeded")
	}
}

// A container that its host holds back waits with the host's reason, until the host supplies it or the pod is stopped.
// What is supplied while it runs is for its next run.
func TestAContainerWaitsForItsHost(t *testing.T) {
	spec := wire.Container{
		Name: "c", Kind: wire.KindRegular, Held: &wire.Held{Reason: "ErrImagePull", Message: "no such image"},
	}
	p := newPod(wire.Pod{Containers: []wire.Container{spec}}, nil, nil)
	close(p.prepared)
	c := p.containers[0]
	state := func() (s wire.ContainerStatus, changed <-chan struct{}) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return c.status, p.changed
	}
	waits := func(reason, message string) {
		t.Helper()
		for {
			s, changed := state()
			if s.State == wire.Waiting && s.Held && s.Reason == reason && s.Message == message {
				return
			}
			select {
			case <-changed:
			case <-time.After(time.Minute):
				t.Fatalf("%+v, want %s %s", s, reason, message)
			}
		}
	}
	supply := func(change func(*wire.Container)) {
		t.Helper()
		next := spec
		change(&next)
		if err := p.supply(wire.Add{Container: next}); err != nil {
			t.Fatal(err)
		}
	}
	begins := make(chan bool)
	go func() { begins <- c.awaitConfig() }()
	waits("ErrImagePull", "no such image")
	supply(func(next *wire.Container) { next.Held = &wire.Held{Reason: "ImagePullBackOff", Message: "later"} })
	waits("ImagePullBackOff", "later")
	supply(func(next *wire.Container) {
		next.Held, next.Args, next.User, next.StopSignal = nil, []string{"one"}, wire.User{UID: 7}, 3
	})
	if !<-begins {
		t.Fatal("it does not begin")
	}
	if s, _ := state(); s.Held || s.User.UID != 7 || len(p.events) > 0 { // the host records the events
		t.Errorf("%+v, %v", s, p.events)
	}
	if now := c.current(); now.Args[0] != "one" || now.StopSignal != 3 {
		t.Errorf("%+v", now)
	}
	supply(func(next *wire.Container) { next.Held, next.Args, next.MemoryBytes = nil, []string{"two"}, 1 })
	if now := c.current(); now.Args[0] != "one" {
		t.Errorf("the run has become %q", now.Args)
	}
	if !c.awaitConfig() || c.current().Args[0] != "two" || c.current().MemoryBytes != 0 {
		t.Errorf("the next run is %+v", c.current())
	}

	c.ended(wire.Exit{Code: 4}, true, time.Second)
	supply(func(next *wire.Container) { next.Held = &wire.Held{Reason: "CreateContainerConfigError"} })
	go func() { begins <- c.awaitConfig() }()
	waits("CreateContainerConfigError", "")
	p.beginStop(0)
	if <-begins {
		t.Error("it begins in a pod that stops")
	}
	if s, _ := state(); s.State != wire.Terminated || s.Exit == nil || s.Exit.Code != 4 {
		t.Errorf("%+v", s)
	}
	if err := p.supply(wire.Add{Container: wire.Container{Name: "other"}}); err == nil {
		t.Error("a container that the pod does not have was supplied")
	}
}

// An init container that is held delays those after it, a sidecar too. A regular one delays none.
func TestWhichContainersWaitForAHeldOne(t *testing.T) {
	held := &wire.Held{Reason: "CreateContainerConfigError"}
	for _, c := range []struct {
		kinds  []wire.ContainerKind // the first one is held
		begins bool                 // the second one
	}{
		{[]wire.ContainerKind{wire.KindInit, wire.KindRegular}, false},
		{[]wire.ContainerKind{wire.KindSidecar, wire.KindInit}, false},
		{[]wire.ContainerKind{wire.KindSidecar, wire.KindRegular}, false},
		{[]wire.ContainerKind{wire.KindRegular, wire.KindRegular}, true},
	} {
		spec := wire.Pod{RestartPolicy: wire.RestartNever}
		for i, kind := range c.kinds {
			spec.Containers = append(spec.Containers, wire.Container{Name: string(rune('a' + i)), Kind: kind})
		}
		spec.Containers[0].Held = held
		// The second container begins if it waits too: for a reason of its own.
		spec.Containers[1].Held = &wire.Held{Reason: "own"}
		p := newPod(spec, nil, nil)
		close(p.prepared)
		over := make(chan struct{})
		go func() { defer close(over); p.runRound() }()
		first, second := p.containers[0], p.containers[1]
		reason := func(of *container) (string, <-chan struct{}) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return of.status.Reason, p.changed
		}
		for _, wanted := range []struct {
			of     *container
			reason string
		}{{first, held.Reason}, {second, "own"}} {
			if wanted.of == second && !c.begins {
				continue
			}
			for {
				is, changed := reason(wanted.of)
				if is == wanted.reason {
					break
				}
				<-changed
			}
		}
		p.beginStop(0)
		<-over
		if is, _ := reason(second); (is == "own") != c.begins {
			t.Errorf("%v: the second waits with %s", c.kinds, is)
		}
	}
}
