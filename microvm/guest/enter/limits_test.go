package enter

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limited in the environment makes this program that of a container.
const limited = "NODELESS_TEST_LIMITED"

// The program of a container begins with Fargate's limits or, if the host may not raise its own, with lower ones.
func TestOpenFilesAreLimited(t *testing.T) {
	if os.Getenv(limited) != "" {
		if err := limitOpenFiles(); err != nil {
			t.Fatal(err)
		}
		t.Fatal(unix.Exec("/bin/sh", []string{"sh", "-c", "echo $(ulimit -Sn) $(ulimit -Hn)"}, nil))
	}
	shell := func(script string) string {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(os.Environ(), limited+"=1")
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return strings.TrimSpace(string(said))
	}
	for _, before := range []string{"ulimit -Sn 1100; ", "ulimit -n 512; "} {
		var hard int
		if _, err := fmt.Sscan(shell(before+"ulimit -n 65535 2>/dev/null; ulimit -Hn"), &hard); err != nil {
			t.Fatal(err)
		}
		got := shell(before + "exec " + os.Args[0] + " -test.run='^TestOpenFilesAreLimited$'")
		if want := fmt.Sprint(min(hard, 1024), hard); got != want {
			t.Errorf("%sits limits are %q, want %q", before, got, want)
		}
	}
}
