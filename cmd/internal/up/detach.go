//go:build !noplane

package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/progress"
	"github.com/nodeless/nodeless/internal/kit/datadir"
	"github.com/nodeless/nodeless/plane"
)

// detach starts the same command in the background and returns when it is ready.
func detach(ctx context.Context, o upOptions, args []string) error {
	if _, err := datadir.Prepare(o.DataDir, plane.Version()); err != nil {
		return err
	}
	if s, err := localcluster.LoadSession(o.DataDir); err == nil {
		return fmt.Errorf("the cluster in %s already runs (process %d); stop it with: %s", o.DataDir, s.PID,
			localcluster.CommandFor("down", o.DataDir, s.Name))
	}
	if err := os.Remove(localcluster.SessionFile(o.DataDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old session: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	logPath := filepath.Join(o.DataDir, "logs", "up.log")
	if err := os.MkdirAll(filepath.Dir(logPath), 0o700); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...) // it outlives this command
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	p := progress.New(os.Stdout)
	p.Begin("Start in the background (process %d)", cmd.Process.Pid)
	return awaitSession(ctx, o, cmd, logPath, p)
}

// arguments returns the command line of the background process: the given flags, and the cluster's location.
func (o *upOptions) arguments(f *pflag.FlagSet) []string {
	args := []string{"up", "--detach=false", "--data-dir", o.DataDir}
	if o.Name != "" {
		args = append(args, "--name", o.Name)
	}
	f.Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if flag.Name == "detach" || flag.Name == "data-dir" || flag.Name == "name" {
			return
		}
		for _, value := range values {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return args
}

func awaitSession(ctx context.Context, o upOptions, cmd *exec.Cmd, logPath string, p *progress.Printer) error {
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			p.Fail()
			_ = cmd.Process.Signal(syscall.SIGTERM)
			return errors.Join(ctx.Err(), <-exited)
		case err := <-exited:
			p.Fail()
			return fmt.Errorf("it ended before it was ready: %s (%w; log: %s)", lastLine(logPath), err, logPath)
		case <-poll.C:
		}
		s, err := localcluster.LoadSession(o.DataDir)
		if err != nil {
			continue
		}
		p.Done("")
		if s.NoContext != "" {
			p.Line(noContext, localcluster.ContextName(s.Name), s.NoContext)
		}
		hints(p, s, o.DataDir, o.controller && o.fargate && o.microVMs)
		p.Line("Stop it with:")
		p.Line("  %s", localcluster.CommandFor("down", o.DataDir, s.Name))
		return nil
	}
}

// lastLine returns the last non-empty line of a log, without the command's name.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > 8192 {
		_, _ = f.Seek(-8192, io.SeekEnd)
	}
	data, _ := io.ReadAll(f)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "nodeless: ")
}
