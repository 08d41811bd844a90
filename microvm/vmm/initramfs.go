package vmm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
)

// initramfs writes the guest's initial file system to a file in dir that is named after its content, and returns the
// path.
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
	a.inode = -1
	a.add("TRAILER!!!", 0, nil, 0, 0)
	path := filepath.Join(dir, fmt.Sprintf("initramfs-%x.cpio", sha256.Sum256(a.Bytes())))
	if info, err := os.Stat(path); err == nil && info.Size() == int64(a.Len()) {
		return path, nil
	}
	return path, atomicfile.Write(path, a.Bytes())
}

// archive is a cpio archive in the "newc" format (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).
// It is not compressed, since emulated guests copy faster than they decompress.
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
