package stories

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is the user of the same name, which owns no file.
const nobody = 65534

// A data directory of another user, as "sudo nodeless up" leaves it: every command says which folder it may not use
// and what to do, and changes nothing.
func TestADataDirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--controller=false", "--page", "")
	for dir := c.dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755) // the test's own folders; the data directory does not exist yet
	}
	c.start()
	c.kubectl("create", "configmap", "kept")
	c.stop(syscall.SIGTERM)

	parent := filepath.Dir(c.dir)
	empty := filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	before, all := contents(t, parent), []string{"up", "up --detach", "down", "down --wipe", "status", "env"}
	for _, x := range []struct {
		dir, remedy string
		mode        os.FileMode
		commands    []string
	}{
		{c.dir, "run as the user that it belongs to, or choose another with --data-dir", 0o700, all},
		{c.dir, "run as the user that it belongs to, or choose another with --data-dir", 0o755, all},
		{empty, "make it writable, or choose another with --data-dir", 0o755, all[:2]},
		{filepath.Join(parent, "new"), "choose another with --data-dir", 0, all[:2]},
	} {
		if x.mode != 0 {
			if err := os.Chmod(x.dir, x.mode); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range x.commands {
			out, err := c.asNobody(append(strings.Fields(command), "--data-dir", x.dir)...)
			if err == nil || !strings.Contains(out, x.dir) || !strings.Contains(out, x.remedy) ||
				!strings.Contains(out, "permission denied") || strings.Contains(out, "goroutine") {
				t.Errorf("%s on %s (%v): %v %q, want an error that names the folder and %q", command, x.dir, x.mode, err,
					out, x.remedy)
			}
		}
	}
	if after := contents(t, parent); !maps.Equal(after, before) {
		t.Errorf("it was %v, and now it is %v", before, after)
	}
	if err := os.Chmod(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.kubectl("get", "configmap", "kept")
}

// contents describes every file below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			files[path] = "folder"
			return err
		}
		info, err := d.Info()
		if err == nil {
			files[path] = fmt.Sprint(info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// asNobody runs the binary as a user who owns no file. The program is handed over as an open file: that user may not
// reach its folder.
func (c *cluster) asNobody(args ...string) (string, error) {
	c.t.Helper()
	if os.Getuid() != 0 {
		c.t.Skip("only root may run a program as somebody else")
	}
	program, err := os.Open(binary)
	if err != nil {
		c.t.Fatal(err)
	}
	defer program.Close()
	cmd := exec.Command("/proc/self/fd/3", args...)
	cmd.ExtraFiles = []*os.File{program}
	cmd.Env = append(c.environment(), "HOME=/nonexistent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
