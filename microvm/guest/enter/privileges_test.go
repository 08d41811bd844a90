package enter

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// filtered in the environment makes this program that of a container with a filter.
const filtered = "NODELESS_TEST_FILTERED"

// A container's program, and what it starts, cannot make the system calls that its filter refuses.
func TestSystemCallsAreFiltered(t *testing.T) {
	if os.Getenv(filtered) != "" {
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // instead of the agent's rights
			t.Fatal(err)
		}
		if err := filterCalls([]byte{
			0x20, 0, 0, 0, 0, 0, 0, 0, // load the number of the call
			0x15, 0, 0, 1, unix.SYS_MKDIR, 0, 0, 0, // if it is mkdir
			6, 0, 0, 0, byte(unix.EPERM), 0, 5, 0, // refuse it
			6, 0, 0, 0, 0, 0, 0xff, 0x7f, // else allow it
		}); err != nil {
			t.Fatal(err)
		}
		t.Fatal(unix.Exec("/bin/sh",
			[]string{"sh", "-c", `grep Seccomp: /proc/self/status; exec 2>&1; mkdir "$1"`, "sh", os.Getenv(filtered)},
			os.Environ()))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSystemCallsAreFiltered$")
	cmd.Env = append(os.Environ(), filtered+"="+t.TempDir()+"/new")
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "Seccomp:\t2\n") ||
		!strings.Contains(string(said), unix.EPERM.Error()) && !strings.Contains(string(said), "Operation not permitted") {
		t.Errorf("%v: %s", err, said)
	}
}
