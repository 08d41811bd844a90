package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
)

// edit changes a file under kubectl's own lock, atomically. change reports whether there is anything to write.
func edit(path string, create bool, change func(root *yaml.Node) (bool, error)) error {
	path, err := follow(path)
	if err != nil {
		return err
	}
	if create {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("kubeconfig: %w", err)
		}
	}
	if err := writable(path); err != nil {
		return err
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	doc, err := load(path)
	if err != nil {
		return err
	}
	if changed, err := change(doc.Content[0]); err != nil || !changed {
		return err
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(doc), enc.Close()); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if _, err := clientcmd.Load(out.Bytes()); err != nil {
		return fmt.Errorf("kubeconfig %s: the change would break it: %w", path, err)
	}
	return replace(path, out.Bytes())
}

// follow returns the file to which a path leads. A link into a folder of dotfiles remains a link, even if its target
// does not exist yet.
func follow(path string) (string, error) {
	for range 40 { // as many links as Linux follows
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // it is no link
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", fmt.Errorf("kubeconfig %s: its symbolic links form a loop; fix them, or point KUBECONFIG to another file",
		path)
}

// writable rejects a file that its owner has made read-only, since replacing the file would ignore that.
func writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("kubeconfig: %w", err)
	case info.IsDir():
		return fmt.Errorf("kubeconfig %s: it is a folder; point KUBECONFIG to a file", path)
	case info.Mode().Perm()&0o200 == 0:
		return fmt.Errorf("kubeconfig %s is read-only and was left alone; make it writable (chmod u+w), or point "+
			"KUBECONFIG to another file", path)
	}
	return nil
}

// load parses a file; a missing or empty one is an empty kubeconfig.
func load(path string) (*yaml.Node, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	var doc yaml.Node
	malformed := func(err error) error {
		return fmt.Errorf("kubeconfig %s is malformed and was left alone: %w; fix it, or point KUBECONFIG to another file",
			path, err)
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, malformed(err)
	}
	if doc.Kind == 0 || doc.Content[0].Tag == "!!null" {
		doc = yaml.Node{
			Kind:    yaml.DocumentNode,
			Content: []*yaml.Node{mapping("apiVersion", scalar("v1"), "kind", scalar("Config"))},
		}
		return &doc, nil
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, malformed(errors.New("it is not a mapping"))
	}
	if _, err := clientcmd.Load(raw); err != nil {
		return nil, malformed(err)
	}
	return &doc, nil
}

// replace replaces a file and keeps its mode; a new file is for its owner alone.
func replace(path string, data []byte) error {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*")
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // already gone if all went well
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

// lockPatience is how long another program may take to edit the file.
const lockPatience = 2 * time.Second

// lock creates the lock file that kubectl and client-go use, too.
func lock(path string) (unlock func(), err error) {
	deadline := time.NewTimer(lockPatience)
	defer deadline.Stop()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			_ = f.Close()
			return func() { _ = os.Remove(path) }, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("kubeconfig: %w; make its folder writable, or point KUBECONFIG to another file", err)
		}
		select {
		case <-retry.C:
		case <-deadline.C:
			return nil, fmt.Errorf("kubeconfig: another program is editing it; if none is, delete %s", path)
		}
	}
}
