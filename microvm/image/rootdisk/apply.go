package rootdisk

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// maxXattrs bounds the extended attributes of one file, which share one block of ext4 (4,096 bytes less its header).
const maxXattrs = 3900

const lostAndFound = "lost+found"

// apply reads a layer and merges it into the tree.
func (t *tree) apply(s *stream, layer int) error {
	r := tar.NewReader(s)
	for seq := 0; ; seq++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s.verify()
		}
		if err != nil {
			if s.ctx.Err() != nil {
				return s.ctx.Err()
			}
			return s.refuse(fmt.Errorf("is not a tar archive: %w", err), remedyPull)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := t.add(h, layer, seq); err != nil {
			return refuseEntry(s.layer.Name, h.Name, err)
		}
	}
}

func refuseEntry(layer, entry string, err error) error {
	r := &Refused{Layer: layer, Entry: entry, Cause: err, Remedy: remedyRebuild}
	if errors.Is(err, errTooMuch) {
		r.Remedy = remedySmaller
	}
	return r
}

// errTooMuch marks the errors of exceeded limits.
var errTooMuch = errors.New("over the limit")

// add merges one entry into the tree.
func (t *tree) add(h *tar.Header, layer, seq int) error {
	if err := t.count(h); err != nil {
		return err
	}
	p, err := clean(h.Name)
	if err != nil {
		return err
	}
	if p == "" {
		return t.addRoot(h)
	}
	base := path.Base(p)
	if strings.HasPrefix(base, whiteout) {
		return t.whiteout(path.Dir(p), strings.TrimPrefix(base, whiteout), layer)
	}
	if isDevice(h.Typeflag) && (p == "dev" || strings.HasPrefix(p, "dev/")) {
		return nil // the guest mounts its own /dev over it; images made with debootstrap contain such nodes
	}
	dir, err := t.openDirectory(path.Dir(p), layer)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return t.hardLink(dir, base, h.Linkname, layer)
	}
	n, err := newNode(h, layer, seq)
	if err != nil {
		return err
	}
	if p == lostAndFound && n.kind != tar.TypeDir {
		return errors.New("is not a directory, but every ext4 file system keeps one of that name")
	}
	if old := t.child(dir, base); old != nil && old.node.kind == tar.TypeDir && n.kind == tar.TypeDir {
		n.children, n.hides = old.node.children, old.node.hides // a directory over a directory changes only its attributes
	}
	return t.put(dir, base, n, layer)
}

func (t *tree) addRoot(h *tar.Header) error {
	if h.Typeflag != tar.TypeDir {
		return errors.New("the root of the image is not a directory")
	}
	n, err := newNode(h, 0, 0)
	if err != nil {
		return err
	}
	n.children, n.hides, t.root.node = t.root.node.children, t.root.node.hides, n
	return nil
}

func isDevice(kind byte) bool { return kind == tar.TypeChar || kind == tar.TypeBlock }

// count counts the entry towards the image's limits.
func (t *tree) count(h *tar.Header) error {
	if err := t.countEntry(); err != nil {
		return err
	}
	t.metadata += int64(len(h.Name) + len(h.Linkname))
	for k, v := range h.PAXRecords {
		t.metadata += int64(len(k) + len(v))
	}
	if t.metadata > t.limits.MetadataBytes {
		return t.tooMuchMetadata()
	}
	// This is the logical size: a sparse file of a few bytes may claim exabytes.
	if h.Size < 0 || h.Size > t.limits.Bytes-t.bytes {
		return fmt.Errorf("%w: the image's files take more than %d bytes", errTooMuch, t.limits.Bytes)
	}
	t.bytes += h.Size
	return nil
}

func (t *tree) countEntry() error {
	if t.entries++; t.entries > t.limits.Entries {
		return fmt.Errorf("%w: the image has more than %d entries", errTooMuch, t.limits.Entries)
	}
	return nil
}

func (t *tree) tooMuchMetadata() error {
	return fmt.Errorf("%w: the image's names and attributes take more than %d bytes", errTooMuch, t.limits.MetadataBytes)
}

func newNode(h *tar.Header, layer, seq int) (*node, error) {
	n := &node{kind: h.Typeflag, mode: h.Mode & 0o7777, uid: h.Uid, gid: h.Gid, mtime: h.ModTime, layer: layer, seq: seq}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		n.kind, n.size = tar.TypeReg, h.Size
	case tar.TypeDir:
		n.children = map[string]*entry{}
	case tar.TypeSymlink:
		if n.link = h.Linkname; n.link == "" || len(n.link) > maxPath {
			return nil, fmt.Errorf("symbolic link's target is %d bytes long, Linux allows 1 to %d", len(n.link), maxPath)
		}
	case tar.TypeFifo:
	case tar.TypeChar, tar.TypeBlock:
		return nil, fmt.Errorf("is a device node (%d:%d): outside /dev it would open the virtual machine's devices to "+
			"the pod",
			h.Devmajor, h.Devminor)
	default:
		return nil, fmt.Errorf("tar entry of unknown type %q", h.Typeflag)
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > math.MaxUint32-1 || int64(h.Gid) > math.MaxUint32-1 {
		return nil, fmt.Errorf("owner %d:%d is no user and group ID of Linux", h.Uid, h.Gid)
	}
	var err error
	n.xattrs, err = xattrs(h)
	return n, err
}

// xattrs returns the file capabilities and user attributes. Others belong to the host that built the image (SELinux,
// IMA) or would be instructions to the guest's overlayfs (trusted.overlay.*, user.overlay.*).
func xattrs(h *tar.Header) (map[string]string, error) {
	kept, size := map[string]string{}, 0
	for k, v := range h.PAXRecords {
		name, ok := strings.CutPrefix(k, paxXattr)
		if !ok || name != "security.capability" &&
			(!strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.")) {
			continue
		}
		if len(name) > maxName {
			return nil, fmt.Errorf("extended attribute's name is %d bytes long, Linux allows %d", len(name), maxName)
		}
		kept[name] = v
		size += len(name) + len(v) + 24 // an entry's header and padding
	}
	if size > maxXattrs {
		return nil, fmt.Errorf("extended attributes %v take %d bytes, a file has room for %d",
			short(fmt.Sprint(slices.Sorted(maps.Keys(kept)))), size, maxXattrs)
	}
	return kept, nil
}

// hardLink gives an existing file another name. Like link(2) it does not follow a symbolic link in the last part of the
// target.
func (t *tree) hardLink(dir *node, base, target string, layer int) error {
	p, err := clean(target)
	if err != nil {
		return fmt.Errorf("hard link's target %q %w", short(target), err)
	}
	if p == "" {
		return errors.New("is a hard link to the root directory")
	}
	from, err := t.directory(path.Dir(p), -1)
	if err != nil {
		return fmt.Errorf("hard link's target %q: %w", short(target), err)
	}
	old := t.child(from, path.Base(p))
	switch {
	case old == nil:
		return fmt.Errorf("hard link's target %q does not exist", short(target))
	case old.node.kind == tar.TypeDir:
		return fmt.Errorf("hard link's target %q is a directory", short(target))
	}
	return t.put(dir, base, old.node, layer)
}
