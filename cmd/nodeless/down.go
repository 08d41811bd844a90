package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/internal/kubeconfig"
	"github.com/nodeless/nodeless/internal/steps"
)

func newDown() *cobra.Command {
	var dir string
	var wipe, now bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "down",
		Short: `Stop the cluster of "nodeless up"`,
		Long: `Stops the process that "nodeless up" started, wherever it runs, and takes the context "nodeless" out of your kubeconfig.
Pods in microVMs end with their grace, which Ctrl-C and --now cut short; the next "nodeless up" begins them anew. The cluster's state stays in the data directory, and
the next "nodeless up" goes on with it; --wipe deletes it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := resolveDataDir(dir)
			if err != nil {
				return err
			}
			return down(cmd.Context(), dir, wipe, now, timeout, steps.New(os.Stdout))
		},
	}
	dataDirFlag(c, &dir)
	nowFlag(c, &now)
	c.Flags().BoolVar(&wipe, "wipe", false, "also delete the data directory: all objects and machines of the cluster")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait for the process to end by itself before it is killed")
	return c
}

func down(ctx context.Context, dir string, wipe, now bool, timeout time.Duration, p *steps.Printer) error {
	s, err := loadSession(dir)
	switch {
	case errors.Is(err, errNotRunning):
		p.Line("Nothing runs in %s.", dir)
	case err != nil && !wipe:
		return err
	case err == nil:
		p.Begin("Stop the cluster (process %d)", s.PID)
		if err := stopProcess(ctx, s.PID, timeout); err != nil {
			p.Fail()
			return err
		}
		p.Done("")
	}
	grace, cancel := graceful(ctx, now)
	defer cancel()
	if n, err := endMicroVMs(grace, dir); err != nil {
		return err
	} else if n > 0 {
		p.Line("%d microVMs ended.", n)
	}
	if err := kubeconfig.Remove(contextName); err != nil {
		p.Line("The context %q could not be taken out of your kubeconfig: %v", contextName, err)
	}
	if err := os.Remove(sessionFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove session: %w", err)
	}
	if !wipe {
		return nil
	}
	return wipeDataDir(dir, p)
}

// nowFlag adds --now.
func nowFlag(c *cobra.Command, now *bool) {
	c.Flags().BoolVar(now, "now", false, "end pods in microVMs at once, without their grace")
}

// graceful is the time that pods in microVMs have to end: as long as they like, or none.
func graceful(ctx context.Context, now bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if now {
		cancel()
	}
	return ctx, cancel
}

// wipeDataDir deletes the folder, but only one that looks like ours: a wrong --data-dir must not cost a home directory.
func wipeDataDir(dir string, p *steps.Printer) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wipe %s: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, dataDirMark)); err != nil && len(entries) > 0 {
		return fmt.Errorf("wipe %s: it holds no file %s, so it was not made by nodeless; delete it yourself if you are sure", dir, dataDirMark)
	}
	p.Begin("Delete %s", dir)
	if err := os.RemoveAll(dir); err != nil {
		p.Fail()
		return fmt.Errorf("wipe %s: %w", dir, err)
	}
	p.Done("")
	return nil
}

// stopProcess asks the process to end, and kills it if it does not within the timeout.
func stopProcess(ctx context.Context, pid int, timeout time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for alive(pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop process %d: %w", pid, ctx.Err())
		case <-deadline.C:
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d after %s: %w", pid, timeout, err)
			}
		case <-poll.C:
		}
	}
	return nil
}
