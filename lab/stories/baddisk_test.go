package stories

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A second `up` on the same data directory; directories without their session, of another version, and damaged; a
// path that is a file; and kubeconfigs that cannot be changed.
func TestBadDataDirectory(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.keepsKubeconfig("this: [is no kubeconfig", 0o600, "malformed")
	out, err := c.run("up", "--data-dir", c.dir)
	if err == nil || !strings.Contains(out, c.dir) || !strings.Contains(out, "down") {
		t.Errorf("second up on the same data directory: %v %q, want an error with the directory and the remedy", err, out)
	}
	c.losesItsSession()
	c.staysOfItsVersion()

	etcd := filepath.Join(c.dir, "etcd", "member", "snap", "db")
	if _, err := os.Stat(etcd); err != nil {
		t.Fatalf("etcd's database is not where this test looks for it: %v", err)
	}
	if err := os.WriteFile(etcd, []byte("this is not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = c.run("up", "--data-dir", c.dir, "--merge-kubeconfig=false")
	if err == nil || strings.Contains(out, "goroutine") || !strings.Contains(out, c.dir) ||
		!strings.Contains(out, "--wipe") {
		t.Errorf("up on a damaged data directory: %v %q, want an error with the directory and the remedy, no stack", err, out)
	}
	out, err = c.run("down", "--data-dir", c.dir, "--wipe")
	if err != nil {
		t.Fatalf("down --wipe: %v %q", err, out)
	}
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("down --wipe left %s", c.dir)
	}

	c.namesAFile()
	if out, err := c.run("up", "--region", "mars-1"); err == nil || !strings.Contains(out, "us-west-2") {
		t.Errorf("up in an unknown region: %v %q, want the regions there are", err, out)
	}
	c.keepsKubeconfig("apiVersion: v1\nkind: Config\n", 0o400, "chmod u+w")
}

// keepsKubeconfig starts the cluster although the user's kubeconfig cannot be changed. The file stays as it is, and
// up says why.
func (c *cluster) keepsKubeconfig(content string, mode os.FileMode, why string) {
	c.t.Helper()
	path := filepath.Join(c.home, ".kube", "config")
	_ = os.Remove(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		c.t.Fatal(err)
	}
	c.start()
	c.eventually(time.Minute, func() error { // the session is written before the hints are printed
		if !strings.Contains(c.log(), "kubectl --kubeconfig "+c.Session.Kubeconfig) || !strings.Contains(c.log(), why) ||
			!strings.Contains(c.log(), path) {
			return errNotSaid
		}
		return nil
	})
	if now, err := os.ReadFile(path); err != nil || string(now) != content {
		c.t.Errorf("the kubeconfig became %q (%v)", now, err)
	}
}

var errNotSaid = errors.New("up does not say what is wrong with the kubeconfig, and how to do without")

// losesItsSession: without the session file, the process is found and stopped by the lock that it holds, and a second
// up names the process that holds it.
func (c *cluster) losesItsSession() {
	c.t.Helper()
	if err := os.Remove(filepath.Join(c.dir, "session.json")); err != nil {
		c.t.Fatal(err)
	}
	process := fmt.Sprintf("process %d", c.cmd.Process.Pid)
	for _, command := range []string{"status", "up"} {
		if out, err := c.run(command, "--data-dir", c.dir); err == nil || !strings.Contains(out, process) ||
			!strings.Contains(out, "nodeless down") {
			c.t.Errorf("%s: %v %s", command, err, out)
		}
	}
	if out := c.must("down", "--data-dir", c.dir); !strings.Contains(out, process) {
		c.t.Errorf("down: %s", out)
	}
	c.stop(syscall.SIGTERM)
}

// staysOfItsVersion: a data directory that a newer version wrote is left alone.
func (c *cluster) staysOfItsVersion() {
	c.t.Helper()
	path := filepath.Join(c.dir, ".nodeless")
	mark, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(mark), `"kubernetes":"v1.`) {
		c.t.Fatalf("%s: %v", mark, err)
	}
	if err := os.WriteFile(path, []byte(`{"format":1,"version":"v9.9","kubernetes":"v1.99.0"}`), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if out, err := c.run("up", "--data-dir", c.dir); err == nil ||
		!strings.Contains(out, "v9.9 with Kubernetes v1.99.0") || !strings.Contains(out, "--data-dir") {
		c.t.Errorf("up in the folder of a newer version: %v %s", err, out)
	}
	if err := os.WriteFile(path, mark, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// namesAFile: every command says that the path is a file, and does not touch it.
func (c *cluster) namesAFile() {
	c.t.Helper()
	file := filepath.Join(c.home, "a-file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		for _, command := range []string{"up", "up --detach", "down --wipe", "status", "top", "kubectl get pods", "env"} {
			words := strings.Fields(command)
			out, err := c.run(append([]string{words[0], "--data-dir", path}, words[1:]...)...)
			if err == nil || !strings.Contains(out, "is a file") || !strings.Contains(out, "--data-dir") {
				c.t.Errorf("%s on %s: %v %s", command, path, err, out)
			}
		}
	}
	if now, _ := os.ReadFile(file); string(now) != "mine" {
		c.t.Errorf("the file became %q", now)
	}
}

// up names a disk with too little space before the cluster starts. If the disk fills up later, the process ends and
// says what to do, and no data is lost.
func TestADiskThatIsFull(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	mount := func(options string) {
		t.Helper()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "nodeless-test",
			disk).CombinedOutput(); err != nil {
			t.Skipf("this user cannot mount a small disk: %v %s", err, out)
		}
	}
	mount("size=20m")
	c := newCluster(t, "--controller=false", "--page", "")
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	c.dir = filepath.Join(disk, "data")
	if out, err := c.run("up", "--data-dir", c.dir); err == nil || !strings.Contains(out, "20 MiB free") ||
		!strings.Contains(out, "make room") {
		t.Errorf("up on a small disk: %v %s", err, out)
	}
	mount("remount,size=400m")
	c.start()
	c.kubectl("create", "configmap", "kept")
	fill := filepath.Join(disk, "fill")
	_ = exec.Command("dd", "if=/dev/zero", "of="+fill, "bs=1M").Run() // ends when the disk is full
	c.eventually(time.Minute, func() error {
		_, _ = c.runIn(strings.Repeat("x", 20000), "kubectl", "create", "configmap", "--from-file=/dev/stdin",
			fmt.Sprintf("x%d", time.Now().UnixNano()))
		select {
		case err := <-c.exit:
			c.exit <- err
			return nil
		default:
			return errors.New("it goes on without a disk to write to")
		}
	})
	if out := c.log(); !strings.Contains(out, "no space left on device; make room on the disk of "+c.dir) ||
		strings.Contains(out, "goroutine") {
		t.Errorf("when the disk is full:\n%s", out)
	}
	c.stop(syscall.SIGTERM)
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.kubectl("get", "configmap", "kept")
	c.stop(syscall.SIGTERM)
	mount("remount,ro")
	if out, err := c.run("up", "--data-dir", c.dir); err == nil || !strings.Contains(out, "cannot be written to") ||
		!strings.Contains(out, "make it writable") {
		t.Errorf("up on a read-only disk: %v %s", err, out)
	}
}
