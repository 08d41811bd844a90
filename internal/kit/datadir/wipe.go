package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// hostFolder is what "nodeless host" keeps: this machine's membership in another cluster, which outlives this one.
const hostFolder = "host"

// written are the files and folders that Nodeless makes in a data directory, by parent folder. The mark comes last,
// so that an interrupted wipe can be repeated. Add every new file here: a story checks that a wipe leaves nothing.
var written = []struct {
	in    string
	names []string
}{
	{"etcd", []string{"member", "initialised", "etcd.sock"}},
	{"pki", []string{
		"ca.*", "front-proxy-ca.*", "front-proxy-client.*", "kube-apiserver*", "admin.*", "kube-controller-manager.*",
		"kube-scheduler.*",
		"service-account.*",
	}},
	{"logs", []string{"nodeless.log", "control-plane.log", "control-plane.log.1", "up.log", "simulated"}},
	{"region", []string{
		"name", "auto-mode", "address", "types.json", "credentials", "kubeconfig", "kubeconfig.new", "*-[0-9].db",
	}},
	{"images", []string{"local"}},
	{"microvms", []string{
		"lock", "network", "network.json", "network.json.new", "kubelet-port", "images", "pods", "machines", "qemu",
		"namespaces", "log-router", "overlay.key", "overlay.key.new",
	}},
	{"tokens", []string{"page", "page.tmp", "region", "region.tmp"}},
	{"bad-plans", []string{"????????????.json"}},
	{".", []string{
		"kubeconfig", "kubeconfig.tmp", "plane.json", "plane.json.tmp", "audit-policy.yaml", "audit-policy.yaml.tmp",
		"session.json",
		"session.json.tmp", lockFile,
	}},
	{".", []string{markFile + ".tmp", markFile}},
}

// Wipe deletes what Nodeless wrote, and the folder if nothing else is in it. It returns what it left: files of
// others, and what "nodeless host" keeps. It fails with fs.ErrNotExist if no cluster has left anything, with
// ErrNotOurs in a folder that is not ours, and with a *InUseError while a process uses the folder.
func Wipe(dir string) (left []string, err error) {
	if _, err := Read(dir); errors.Is(err, ErrNotOurs) && empty(dir) == nil {
		return nil, fs.ErrNotExist // wiped before, except for what "nodeless host" keeps
	} else if err != nil {
		return nil, err
	}
	release, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("wipe %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }()
	for _, w := range written {
		if err := wipeFolder(root, w.in, w.names); err != nil {
			return nil, fmt.Errorf("wipe %s: %w", dir, err)
		}
	}
	if left, err = remaining(root); err != nil {
		return left, fmt.Errorf("wipe %s: %w", dir, err)
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return left, nil // the link and its target are the user's
	}
	// EBUSY: a disk is mounted there.
	if err := os.Remove(dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) {
		return left, fmt.Errorf("wipe %s: %w", dir, err)
	}
	return left, nil
}

// wipeFolder deletes the names in one folder, and the folder if it is then empty. Links are not ours: it neither
// deletes nor follows them.
func wipeFolder(root *os.Root, folder string, names []string) error {
	if info, err := root.Lstat(folder); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // it is not there
	}
	for _, name := range names {
		matches, err := fs.Glob(root.FS(), path.Join(folder, name))
		if err != nil {
			return err
		}
		for _, match := range matches {
			info, err := root.Lstat(match)
			if err != nil || info.Mode()&fs.ModeSymlink != 0 {
				continue
			}
			if err := root.RemoveAll(match); err != nil {
				return err
			}
		}
	}
	if folder == "." {
		return nil
	}
	if err := root.Remove(folder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) {
		return err
	}
	return nil
}

// remaining lists what is left: top-level files and folders of others, and single files in folders of ours.
func remaining(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	ours := map[string]bool{}
	for _, w := range written {
		ours[w.in] = true
	}
	var left []string
	for _, e := range entries {
		if !e.IsDir() || !ours[e.Name()] {
			if e.Name() != markFile {
				left = append(left, e.Name())
			}
			continue
		}
		inside, err := fs.ReadDir(root.FS(), e.Name())
		if err != nil {
			return nil, err
		}
		for _, f := range inside {
			left = append(left, filepath.Join(e.Name(), f.Name()))
		}
	}
	return left, nil
}
