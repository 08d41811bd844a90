//go:build !noplane

package main

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

	"github.com/nodeless/nodeless/cmd/internal/progress"
	"github.com/nodeless/nodeless/internal/kit/datadir"
	"github.com/nodeless/nodeless/plane"
)

// detach starts the same command in the background and returns when it is ready.
func detach(ctx context.Context, o upOptions) error {
	if _, err := datadir.Prepare(o.dataDir, plane.Version()); err != nil {
		return err
	}
	if s, err := loadSession(o.dataDir); err == nil {
		return fmt.Errorf("the cluster in %s already runs (process %d); stop it with: %s", o.dataDir, s.PID,
			commandFor("down", o.dataDir, s.Name))
	}
	if err := os.Remove(sessionFile(o.dataDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old session: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	logPath := filepath.Join(o.dataDir, "logs", "up.log")
	if err := os.MkdirAll(filepath.Dir(logPath), 0o700); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, o.arguments()...) // it outlives this command
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	p := progress.New(os.Stdout)
	p.Begin("Start in the background (process %d)", cmd.Process.Pid)
	return awaitSession(ctx, o, cmd, logPath, p)
}

// arguments are the flags for the process in the background.
func (o upOptions) arguments() []string {
	args := append([]string{
		"up", "--data-dir", o.dataDir, "--region", o.region, "--boot-time", o.bootTime.String(),
		fmt.Sprintf("--seed=%d", o.seed), fmt.Sprintf("--demo=%t", o.demo),
		fmt.Sprintf("--merge-kubeconfig=%t", o.kubeconfig), fmt.Sprintf("--controller=%t", o.controller),
		fmt.Sprintf("--fargate=%t", o.fargate),
		fmt.Sprintf("--addons=%t", o.addons), fmt.Sprintf("--cluster-addons=%t", o.clusterAddons),
		fmt.Sprintf("--microvms=%t", o.microVMs), "--guest-kernel", o.guestKernel, "--engine", o.engine,
		"--ready-timeout", o.readyTimeout.String(), "--audit-log", o.auditLog, "--types", o.typesFile,
	}, o.choices.arguments()...)
	if o.name != "" {
		args = append(args, "--name", o.name)
	}
	if o.pageAsked {
		args = append(args, "--page", o.page)
	}
	for _, m := range o.mirrors {
		args = append(args, "--registry-mirror", m)
	}
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
		s, err := loadSession(o.dataDir)
		if err != nil {
			continue
		}
		p.Done("")
		if s.NoContext != "" {
			p.Line(noContext, contextName(s.Name), s.NoContext)
		}
		s.hints(p, o.dataDir, o.controller && o.fargate && o.microVMs)
		p.Line("Stop it with:")
		p.Line("  %s", commandFor("down", o.dataDir, s.Name))
		return nil
	}
}

// lastLine is the last line of a log that is not empty, without the command's name before it.
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
