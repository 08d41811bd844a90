package vmm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// Agent is the guest's two programs, linked statically: microvm/guest/agent and microvm/guest/enter/main.
type Agent struct{ Init, Enter []byte }

// initramfs writes the guest's initial file system to dir, named by its content, and returns its path.
func initramfs(dir string, agent Agent, k Kernel) (string, error) {
	modules, err := k.moduleFiles()
	if err != nil {
		return "", err
	}
	var a archive
	for _, d := range []string{"dev", "disks", "modules", "pod", "proc", "root", "scratch", "sys"} {
		a.add(d, 0o040755, nil, 0, 0)
	}
	a.add("dev/console", 0o020600, nil, 5, 1)
	a.add("init", 0o100755, agent.Init, 0, 0)
	a.add("enter", 0o100755, agent.Enter, 0, 0)
	var order bytes.Buffer
	strip := k.takesUnsigned()
	for _, path := range modules {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if strip {
			content = unsigned(content)
		}
		a.add("modules/"+filepath.Base(path), 0o100644, content, 0, 0)
		fmt.Fprintln(&order, filepath.Base(path))
	}
	if len(modules) > 0 {
		a.add("modules/order", 0o100644, order.Bytes(), 0, 0)
	}
	content := a.end()
	path := filepath.Join(dir, fmt.Sprintf("initramfs-%x.cpio", sha256.Sum256(content)))
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(content)) {
		return path, nil
	}
	return path, writeFileAtomically(path, content)
}

// writeFileAtomically leaves either the old file or the whole new one.
func writeFileAtomically(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if _, err := f.Write(content); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// archive is a cpio archive in the "newc" format (Linux, Documentation/driver-api/early-userspace/buffer-format.rst),
// not compressed: emulated guests copy faster than they decompress.
type archive struct {
	bytes.Buffer
	inode int
}

func (a *archive) add(name string, mode uint32, content []byte, major, minor int) {
	a.inode++
	fmt.Fprintf(a, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", a.inode, mode, 0, 0, 1, 0,
		len(content), 0, 0, major, minor, len(name)+1, 0)
	a.WriteString(name + "\x00")
	a.pad()
	a.Write(content)
	a.pad()
}

func (a *archive) pad() {
	for a.Len()%4 != 0 {
		a.WriteByte(0)
	}
}

func (a *archive) end() []byte {
	a.inode = -1
	a.add("TRAILER!!!", 0, nil, 0, 0)
	return a.Bytes()
}
