package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

func never(context.Context) error { return errNotYet }

func TestAProcessThatEndsIsNotAwaited(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(dir, "short", []string{"WORD=hello"}, "/bin/sh", "-c", "echo $WORD; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = Await(t.Context(), "a miracle", p, never)
	if err == nil || !strings.Contains(err.Error(), "short ended by itself (exit status 3)") {
		t.Errorf("the error is %v", err)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "short.log")); err != nil || string(log) != "hello\n" {
		t.Errorf("the log says %q, %v", log, err)
	}
}

func TestAStoppedProcessHasEnded(t *testing.T) {
	p, err := Start(t.TempDir(), "long", nil, "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Await(ctx, "a miracle", p, never); !errors.Is(err, errNotYet) || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	p.Stop(time.Minute)
	select {
	case <-p.Done():
	default:
		t.Error("the process has not ended")
	}
}

func TestUpReadsTheSession(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "nodeless")
	script := "#!/bin/sh\nmkdir -p \"$4\"\necho '{\"regionEndpoint\":\"http://r\"}' > \"$4/session.json\"\nexec sleep 600\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p, s, err := Up(t.Context(), dir, program, "--addons=false")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(time.Minute)
	if s.RegionURL != "http://r" {
		t.Errorf("the session is %+v", s)
	}
}
