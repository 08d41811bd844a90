package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/kubeconfig"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/progress"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/datadir"
)

func newDown() *cobra.Command {
	var at localcluster.Selector
	var wipe, now bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "down",
		Short: `Stop the cluster of "nodeless up"`,
		Long: `Stops the process that "nodeless up" started, wherever it runs, and removes the
cluster's context from your kubeconfig. Pods in microVMs get their grace period,
which Ctrl-C and --now cut short.

The cluster's state stays in the data directory, and the next "nodeless up"
continues with it. --wipe deletes what Nodeless wrote there, and the folder if
nothing else is in it.`,
		Example: `  # Stop the default cluster, keeping its state
  nodeless down

  # Stop another cluster and delete its state
  nodeless down --name b --wipe`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := at.ResolveExisting()
			if err != nil {
				return err
			}
			return down(cmd.Context(), dir, wipe, now, timeout, progress.New(os.Stdout))
		},
	}
	at.Add(c.Flags())
	program.NowFlag(c, &now)
	c.Flags().BoolVar(&wipe, "wipe", false,
		"also delete the cluster's state: all its objects and nodes; other files in the data directory stay")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second,
		"how long to wait for the process to end before killing it")
	return c
}

func down(ctx context.Context, dir string, wipe, now bool, timeout time.Duration, p *progress.Printer) error {
	s, err := localcluster.LoadSession(dir)
	if pid, used := datadir.User(dir); used && pid != 0 { // even if it is still starting, or its session file is lost
		s.PID, err = pid, nil
	}
	switch {
	case errors.Is(err, localcluster.ErrNotRunning):
		p.Line("Nothing runs in %s.", dir)
	case err != nil && !wipe:
		return err
	case err == nil:
		p.Begin("Stop the cluster (process %d)", s.PID)
		if err := stopProcess(ctx, dir, s.PID, timeout); err != nil {
			p.Fail()
			return err
		}
		p.Done("")
	}
	grace, cancel := program.WithGrace(ctx, now)
	defer cancel()
	if n, err := endMicroVMs(grace, dir); err != nil {
		return err
	} else if n > 0 {
		p.Line("%d microVMs ended.", n)
	}
	c := kubeconfig.Context{Name: cmp.Or(s.Context, localcluster.ContextName(localcluster.NameIn(dir))), DataDir: dir}
	if err := c.Remove(); err != nil {
		p.Line("The context %q could not be taken out of your kubeconfig: %v", c.Name, err)
	}
	if _, err := datadir.Read(dir); errors.Is(err, datadir.ErrNotOurs) { // its session.json is of another program
		if wipe {
			return wipeDataDir(dir, p)
		}
		return nil
	}
	if err := os.Remove(localcluster.SessionFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove session: %w", err)
	}
	if !wipe {
		return nil
	}
	return wipeDataDir(dir, p)
}

// maxNamed is how many remaining files are named.
const maxNamed = 5

// wipeDataDir deletes what Nodeless wrote, but only in a folder that Nodeless created: a wrong --data-dir must not
// delete a home directory.
func wipeDataDir(dir string, p *progress.Printer) error {
	p.Begin("Delete the cluster's state in %s", dir)
	left, err := datadir.Wipe(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		p.Done("there is none")
		return nil
	case errors.Is(err, datadir.ErrNotOurs):
		p.Fail()
		return fmt.Errorf("wipe %s: %w; delete it yourself if you are sure", dir, err)
	case err != nil:
		p.Fail()
		return err
	}
	p.Done("")
	if len(left) > 0 {
		p.Line("The folder stays, with what is not this cluster's: %s", reason.Some(left, maxNamed))
	}
	return nil
}

// stopProcess asks the process that uses the data directory to end, and kills it after the timeout.
func stopProcess(ctx context.Context, dir string, pid int, timeout time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for datadir.InUse(dir) {
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
