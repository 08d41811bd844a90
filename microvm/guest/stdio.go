package guest

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// stdio is the standard input and output of a process.
type stdio struct {
	files    [3]*os.File // the process's ends
	terminal *os.File    // the other end of a terminal
	input    *os.File    // the other end of a standard input that is a pipe or a terminal
	outputs  []output
	reading  sync.WaitGroup
}

type output struct {
	channel byte
	file    *os.File
}

// newStdio opens the standard input and output of a process. It passes each output to consume, which reads it to its
// end, in a goroutine of its own.
func newStdio(tty, stdin bool, size *wire.Size, consume func(channel byte, r io.Reader)) (*stdio, error) {
	s := &stdio{}
	var err error
	if tty {
		err = s.openTerminal(size)
	} else {
		err = s.openPipes(stdin)
	}
	if err != nil {
		s.started()
		s.closeEnds()
		return nil, err
	}
	for _, o := range s.outputs {
		s.reading.Go(func() {
			consume(o.channel, o.file)
			_, _ = io.Copy(io.Discard, o.file) // do not block the process when consume returns early
		})
	}
	return s, nil
}

func (s *stdio) openTerminal(size *wire.Size) error {
	master, err := os.OpenFile("/dev/pts/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	s.terminal, s.input, s.outputs = master, master, []output{{wire.Stdout, master}}
	var number int
	if err := control(master, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	}); err != nil {
		return fmt.Errorf("unlock a terminal: %w", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	s.files = [3]*os.File{slave, slave, slave}
	if size != nil {
		return s.resize(*size)
	}
	return nil
}

func (s *stdio) openPipes(stdin bool) (err error) {
	if stdin {
		s.files[0], s.input, err = os.Pipe()
	} else {
		s.files[0], err = os.Open(os.DevNull)
	}
	for i := byte(wire.Stdout); i <= wire.Stderr && err == nil; i++ {
		var r *os.File
		if r, s.files[i], err = os.Pipe(); err == nil {
			s.outputs = append(s.outputs, output{i, r})
		}
	}
	return err
}

func (s *stdio) resize(size wire.Size) error {
	if s.terminal == nil {
		return nil
	}
	return control(s.terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	})
}

// control uses the descriptor of a file without taking it from the poller.
func control(f *os.File, use func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if controlErr := conn.Control(func(fd uintptr) { err = use(int(fd)) }); controlErr != nil {
		return controlErr
	}
	return err
}

// started closes the process's ends: the process has its own copies.
func (s *stdio) started() {
	for i, f := range s.files {
		if f != nil {
			_ = f.Close()
			s.files[i] = nil
		}
	}
}

// drain waits until all output is consumed, and closes the other ends.
func (s *stdio) drain() {
	s.reading.Wait()
	s.closeEnds()
}

// drainFor is drain, but waits no longer than a limit, or until ctx ends, for processes that have inherited the output
// and keep running. What they write later is read and dropped.
func (s *stdio) drainFor(ctx context.Context, limit time.Duration) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.drain()
	}()
	select {
	case <-drained:
	case <-time.After(limit):
	case <-ctx.Done():
	}
}

func (s *stdio) closeEnds() {
	for _, o := range s.outputs {
		_ = o.file.Close()
	}
	if s.input != nil {
		_ = s.input.Close()
	}
}
