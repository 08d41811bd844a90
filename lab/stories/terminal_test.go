package stories

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// onTerminal runs kubectl on a terminal of 33 lines and 77 columns, types the input, and returns what the terminal
// showed until kubectl ended.
func (c *cluster) onTerminal(input string, args ...string) string {
	c.t.Helper()
	us, them, err := openTerminal()
	if err == nil {
		err = unix.IoctlSetWinsize(int(us.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	defer us.Close()
	cmd := exec.Command(binary, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = them, them, them
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = them.Close()
	if err != nil {
		c.t.Fatal(err)
	}
	limit := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if _, err := io.WriteString(us, input); err != nil {
		c.t.Fatal(err)
	}
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, us) // ends with EIO when the last process closes the terminal
	if err := cmd.Wait(); err != nil {
		c.t.Errorf("kubectl %v: %v", args, err)
	}
	return shown.String()
}

// openTerminal opens a pseudo-terminal and returns our side and the process's side.
func openTerminal() (us, them *os.File, err error) {
	if us, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(us.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(us.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		them, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = us.Close()
	}
	return us, them, err
}
