package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits on the files of the outputs file and stdout. A file that exceeds its size is renamed with the suffix .old
// and replaces an earlier one. Beyond the number of files, the least recently written one is deleted.
const (
	maxFileBytes = 10 << 20
	maxFiles     = 256
)

// files are the files below the router's directory, which no name or link can leave.
type files struct {
	root *os.Root
	most int64
	keep int

	mu    sync.Mutex
	known map[string]bool
}

func openFiles(dir string) (*files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &files{root: root, most: maxFileBytes, keep: maxFiles, known: map[string]bool{}}, nil
}

func (f *files) close() { _ = f.root.Close() }

// append appends to a file, all or nothing.
func (f *files) append(name string, b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.write(name, b); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (f *files) write(name string, b []byte) error {
	if !f.known[name] {
		if err := f.root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		if err := f.prune(); err != nil {
			return err
		}
		f.known[name] = true
	}
	file, err := f.root.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := file.Write(b); err != nil {
		return errors.Join(err, file.Truncate(info.Size()))
	}
	if info.Size()+int64(len(b)) > f.most {
		return f.root.Rename(name, name+".old")
	}
	return nil
}

// prune makes room for one more file.
func (f *files) prune() error {
	type old struct {
		name string
		at   time.Time
	}
	var all []old
	err := fs.WalkDir(f.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, positionsDir+"/") {
			return err
		}
		info, err := d.Info()
		if err == nil && d.Type().IsRegular() {
			all = append(all, old{name, info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b old) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	for i := range max(0, len(all)-f.keep+1) {
		if err := f.root.Remove(all[i].name); err != nil {
			return err
		}
		delete(f.known, all[i].name)
	}
	return nil
}
