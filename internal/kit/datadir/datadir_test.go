package datadir

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const kubernetes = "v1.36.2"

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// made returns a data directory with the files that a cluster writes.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Prepare(dir, kubernetes); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"etcd/member/snap/db", "etcd/initialised", "pki/ca.crt", "pki/kube-apiserver-kubelet-client.key",
		"logs/nodeless.log", "logs/control-plane.log.1", "logs/simulated/pod/0.log",
		"region/us-west-2.db", "region/address", "images/local/oci-layout", "microvms/machines/a/scratch.ext4",
		"microvms/log-router/files/pods.log", "microvms/overlay.key", "region/kubeconfig.new",
		"kubeconfig", "plane.json", "session.json", "lock",
	} {
		write(t, filepath.Join(dir, name))
	}
	return dir
}

func TestAFolderOfSomebodyElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "keep"))
	if _, err := Prepare(dir, kubernetes); !errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v", err)
	}
	if _, err := Wipe(dir); !errors.Is(err, ErrNotOurs) {
		t.Errorf("wipe: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

func TestAWipeLeavesNothingOfOurs(t *testing.T) {
	dir := made(t)
	if left, err := Wipe(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestAWipeKeepsFilesOfOthers(t *testing.T) {
	dir := made(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, filepath.Join(elsewhere, "a"))
	theirs := []string{"images/theirs/index.json", "logs/notes.txt", "notes", "pki/mine.key", "work/file"}
	for _, name := range theirs {
		write(t, filepath.Join(dir, name))
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "bad-plans")); err != nil {
		t.Fatal(err)
	}
	left, err := Wipe(dir)
	if want := []string{"bad-plans", "images/theirs", "logs/notes.txt", "notes", "pki/mine.key", "work"}; err != nil ||
		!slices.Equal(left, want) {
		t.Errorf("left %v, want %v (%v)", left, want, err)
	}
	for _, name := range append(theirs, "bad-plans/a") {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("lost: %v", err)
		}
	}
	for _, name := range []string{markFile, "etcd", "region", "microvms", "kubeconfig", "logs/nodeless.log"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// The data directory may also hold a host of another cluster's microVMs.
func TestAWipeKeepsTheHost(t *testing.T) {
	dir := made(t)
	write(t, filepath.Join(dir, hostFolder, "token"))
	if left, err := Wipe(dir); err != nil || !slices.Equal(left, []string{hostFolder}) {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := Wipe(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a second wipe finds nothing to delete: %v", err)
	}
	if _, err := Prepare(dir, kubernetes); err != nil {
		t.Errorf("it is not ours any more: %v", err)
	}
}

func TestALinkToTheFolderStays(t *testing.T) {
	dir := made(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if left, err := Wipe(link); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if entries, err := os.ReadDir(link); err != nil || len(entries) > 0 {
		t.Errorf("%v %v", entries, err)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := made(t)
	if InUse(dir) {
		t.Error("a lock file left behind means nothing")
	}
	release, err := Lock(dir)
	if err != nil || !InUse(dir) {
		t.Fatalf("%v, in use: %t", err, InUse(dir))
	}
	var inUse *InUseError
	if _, err := Wipe(dir); !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
		t.Errorf("wipe: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); err != nil {
		t.Error(err)
	}
	release()
	if _, err := Wipe(dir); err != nil {
		t.Error(err)
	}
}

func TestAnotherVersion(t *testing.T) {
	dir := made(t)
	for name, c := range map[string]struct {
		mark string
		want string // "" = it is accepted
	}{
		"before marks said anything": {"", ""},
		"of an older Kubernetes":     {`{"format": 1, "version": "v0.1", "kubernetes": "v1.35.9"}`, ""},
		"of a newer Kubernetes": {
			`{"format": 1, "version": "v9.9", "kubernetes": "v1.37.0"}`,
			"v9.9 with Kubernetes v1.37.0",
		},
		"of a newer format": {`{"format": 2, "version": "v9.9"}`, "v9.9"},
		"damaged":           {`{"format`, "damaged"},
	} {
		if err := os.WriteFile(filepath.Join(dir, markFile), []byte(c.mark), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Prepare(dir, kubernetes)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestTheMarkIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	m, err := Prepare(dir, kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.Version = "shop", "v1"
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := Prepare(dir, kubernetes); err != nil || got != m {
		t.Errorf("got %+v, %v, want %+v", got, err, m)
	}
	file := filepath.Join(dir, "file")
	write(t, file)
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if _, err := Prepare(path, kubernetes); err == nil || !strings.Contains(err.Error(), "file") ||
			!strings.Contains(err.Error(), "--data-dir") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAShellReadsTheFolderAsOneWord(t *testing.T) {
	for _, dir := range []string{"/home/me/.local/share/nodeless-b", "/my clusters/a", "/it's/$HOME/`x`", "/집"} {
		out, err := exec.Command("sh", "-c", `for word in`+Flag(dir)+`; do printf '%s\n' "$word"; done`).Output()
		if want := "--data-dir\n" + dir + "\n"; err != nil || string(out) != want {
			t.Errorf("%q, want %q (%v)", out, want, err)
		}
	}
}
