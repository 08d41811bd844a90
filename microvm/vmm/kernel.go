package vmm

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kernel is a guest kernel: an image that QEMU can boot, and its modules.
type Kernel struct {
	Image   string // a bzImage or vmlinux
	Modules string // the directory of one version under lib/modules; "" if all that is needed is built in
}

// FindKernel finds a guest kernel below dir or, if dir is "", in the caches of scripts/guest-kernel and in the
// installed system. The tested kernel is Debian's linux-image-cloud-amd64. Unpacked, it has boot/ and lib/modules/
// (or usr/lib/modules/).
func FindKernel(dir string) (Kernel, error) {
	roots := []string{dir}
	if dir == "" {
		roots = nil
		if cache, err := os.UserCacheDir(); err == nil {
			roots = append(roots, filepath.Join(cache, "nodeless", "kernel"))
		}
		roots = append(roots, "/var/cache/nodeless/kernel", "/")
	}
	for _, root := range roots {
		if k, ok := kernelIn(root); ok {
			return k, nil
		}
	}
	return Kernel{}, fmt.Errorf("%w in %s: run scripts/guest-kernel (it unpacks Debian's linux-image-cloud-amd64) or "+
		"install that package", ErrNoKernel, strings.Join(roots, ", "))
}

// kernelIn returns the newest cloud kernel below a root directory or, except in /, the newest of any kind: the host's
// kernel may lack what a guest needs.
func kernelIn(root string) (Kernel, bool) {
	images, _ := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*cloud*")) // the pattern is well formed
	if len(images) == 0 && root != "/" {
		images, _ = filepath.Glob(filepath.Join(root, "boot", "vmlinu*"))
	}
	if len(images) == 0 {
		return Kernel{}, false
	}
	k := Kernel{Image: slices.MaxFunc(images, byVersion)}
	_, version, _ := strings.Cut(filepath.Base(k.Image), "-")
	for _, lib := range []string{"lib", "usr/lib"} {
		if dir := filepath.Join(root, lib, "modules", version); isDir(dir) {
			k.Modules = dir
		}
	}
	return k, true
}

// byVersion compares names that contain numbers: 6.1.0-9 comes before 6.1.0-56.
func byVersion(a, b string) int {
	split := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(".-_/", r) })
	}
	return slices.CompareFunc(split(a), split(b), func(x, y string) int {
		if len(x) != len(y) && x != "" && y != "" && x[0] <= '9' && y[0] <= '9' {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// guestModules are the modules that a guest needs.
var guestModules = []string{"virtio_mmio", "virtio_console", "virtio_blk", "virtio_net", "overlay"}

// moduleFiles returns the paths of the modules that a guest needs, dependencies first: the agent loads them in this
// order. Modules that do not exist are assumed to be built in.
func (k Kernel) moduleFiles() ([]string, error) {
	if k.Modules == "" {
		return nil, nil
	}
	files := map[string]string{}
	err := filepath.WalkDir(k.Modules, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name, _, ok := strings.Cut(d.Name(), ".ko"); ok && !d.IsDir() {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for kernel modules: %w", err)
	}
	var order []string
	var add func(name string) error
	add = func(name string) error {
		path, ok := files[name]
		if !ok || slices.Contains(order, path) {
			return nil
		}
		needs, err := dependencies(path)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		order = append(order, path)
		return nil
	}
	for _, name := range guestModules {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// dependencies reads which modules a module needs from its own .modinfo, since a package that is unpacked but not
// installed has no modules.dep.
func dependencies(path string) ([]string, error) {
	if !strings.HasSuffix(path, ".ko") {
		return nil, fmt.Errorf("kernel module %s is compressed: unpack it (Debian 12's are not compressed)", path)
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read kernel module %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("kernel module %s has no .modinfo", path)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read kernel module %s: %w", path, err)
	}
	for _, field := range bytes.Split(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
