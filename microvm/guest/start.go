package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
)

// enterProgram is the program of package enter in the initial file system.
const enterProgram = "/enter"

type enterOptions struct {
	cgroup   string
	version1 map[string]string // groups of cgroup version 1
	flags    uintptr           // of the namespaces to make
	join     *os.File          // a pidfd of the process whose mounts and cgroups to join
	pidsOf   int               // a process whose PID namespace to join; 0: none
}

// enter starts a process of a container and waits until it has become the container's program.
func (p *processes) enter(e enter.Entry, s *stdio, o enterOptions) (int, <-chan unix.WaitStatus, error) {
	entryR, entryW, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = entryR.Close() }()
	resultR, resultW, err := os.Pipe()
	if err != nil {
		_ = entryW.Close()
		return 0, nil, err
	}
	defer func() { _ = resultR.Close() }()
	group, err := os.Open(o.cgroup)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = group.Close() }()
	files := []uintptr{s.files[0].Fd(), s.files[1].Fd(), s.files[2].Fd(), entryR.Fd(), resultW.Fd()}
	if o.join != nil {
		files = append(files, o.join.Fd())
	}
	pid, ended, err := p.startIn(o.pidsOf, enterProgram, []string{enterProgram}, &syscall.ProcAttr{
		Dir: "/", Files: files,
		Sys: &syscall.SysProcAttr{
			Cloneflags: o.flags, UseCgroupFD: true, CgroupFD: int(group.Fd()), Setsid: true,
			Setctty: s.terminal != nil,
		},
	})
	_ = resultW.Close()
	s.started()
	if err != nil {
		_ = entryW.Close()
		return 0, nil, fmt.Errorf("start a process: %w", err)
	}
	if err = join(o.version1, pid); err == nil { // before the process gets its entry
		err = json.NewEncoder(entryW).Encode(e)
	}
	_ = entryW.Close()
	said, readErr := io.ReadAll(resultR)
	if len(said) > 0 {
		err = errors.New(string(said))
	}
	if err = errors.Join(err, readErr); err != nil {
		<-ended
		return 0, nil, err
	}
	return pid, ended, nil
}
