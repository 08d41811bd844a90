package rootdisk

import (
	"archive/tar"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Linux's limits (limits.h): PATH_MAX with its closing NUL, NAME_MAX, and the symbolic links of a path resolution.
const (
	maxPath  = 4095
	maxName  = 255
	maxLinks = 40
)

// node is a file, directory, symbolic link or fifo of the image. Several entries can have the same node: hard links.
type node struct {
	kind     byte // tar.TypeReg, TypeDir, TypeSymlink or TypeFifo
	mode     int64
	uid, gid int
	mtime    time.Time
	link     string
	xattrs   map[string]string
	size     int64

	layer, seq int // where a file's content is: the layer, and the entry's number in it

	children   map[string]*entry // of a directory; use tree.child and tree.list to read it
	hides      int               // of a directory: hides what layers below this one put into it or deeper
	pathLength int               // of a directory, so that chains of links cannot build paths too long to open

	parent *node // of the first path the node is written at; set while writing
	name   string
}

// entry is a name in a directory.
type entry struct {
	node *node
	// layer is the last layer that added the entry or something below it. A whiteout hides entries of lower layers.
	layer int
}

// tree is the image's file system, with the layers applied so far.
type tree struct {
	root     *entry
	limits   Limits
	entries  int
	metadata int64
	bytes    int64
	work     int // lookups of an entry in a directory, and parts of a path that need none
}

func newTree(limits Limits) *tree {
	return &tree{limits: limits, root: &entry{node: newDir(0o755)}}
}

func newDir(mode int64) *node {
	return &node{kind: tar.TypeDir, mode: mode, children: map[string]*entry{}}
}

// clean returns a path relative to the root, "" for the root itself. A path that leads out is an error: no builder
// writes one.
func clean(name string) (string, error) {
	p := path.Clean(strings.TrimLeft(name, "/"))
	switch {
	case p == "." || p == "":
		return "", nil
	case p == ".." || strings.HasPrefix(p, "../"):
		return "", errors.New("leads out of the image (path traversal)")
	case len(p) > maxPath:
		return "", fmt.Errorf("path is %d bytes long, Linux allows %d", len(p), maxPath)
	}
	for c := range strings.SplitSeq(p, "/") {
		if len(c) > maxName {
			return "", fmt.Errorf("name is %d bytes long, Linux allows %d", len(c), maxName)
		}
	}
	return p, nil
}

// child returns an entry of a directory, or nil if there is none or it is hidden. Whiteouts only mark a directory;
// child removes the entries that they hide and passes the mark on to subdirectories. So a whiteout costs little, no
// matter how much it hides.
func (t *tree) child(dir *node, name string) *entry {
	t.work++
	e := dir.children[name]
	if e == nil {
		return nil
	}
	if e.layer < dir.hides {
		delete(dir.children, name)
		return nil
	}
	if e.node.kind == tar.TypeDir {
		e.node.hides = max(e.node.hides, dir.hides)
	}
	return e
}

// list returns the names in a directory that are not hidden, sorted.
func (t *tree) list(dir *node) []string {
	names := slices.Sorted(maps.Keys(dir.children))
	return slices.DeleteFunc(names, func(name string) bool { return t.child(dir, name) == nil })
}

// The work that an image may cause: freeWork, and workPerEntry for each of its entries. An ordinary entry causes
// about ten. A path of 4,095 bytes through 40 links of the same length causes 80,000.
const (
	freeWork     = 1 << 20
	workPerEntry = 64
)

// tooMuchWork bounds the work of applying layers.
func (t *tree) tooMuchWork() error {
	if limit := freeWork + workPerEntry*t.entries; t.work > limit {
		return fmt.Errorf("%w: the paths of the image's %d entries have more than %d parts, counted through symbolic links",
			errTooMuch, t.entries, limit)
	}
	return nil
}

// walk resolves p, a directory, as the kernel would with this tree as its root: it follows symbolic links, and ".."
// stops at the root. It makes missing directories if layer >= 0. It returns the entries from the root to the
// directory.
func (t *tree) walk(p string, layer int) ([]*entry, error) {
	at, todo, links := []*entry{t.root}, p, 0
	for todo != "" {
		name, rest, _ := strings.Cut(todo, "/")
		todo = rest
		if err := t.tooMuchWork(); err != nil {
			return nil, err
		}
		dir := at[len(at)-1].node
		switch name {
		case "", ".":
			t.work++
			continue
		case "..":
			t.work++
			at = at[:max(1, len(at)-1)]
			continue
		}
		e := t.child(dir, name)
		if e == nil {
			if layer < 0 {
				return nil, fmt.Errorf("%q does not exist", short(name))
			}
			// Counted as an entry, since one name of 4,095 bytes may create 2,000 directories.
			if err := t.countEntry(); err != nil {
				return nil, err
			}
			if err := t.put(dir, name, newDir(0o755), layer); err != nil {
				return nil, err
			}
			e = t.child(dir, name)
		}
		switch e.node.kind {
		case tar.TypeDir:
			at = append(at, e)
		case tar.TypeSymlink:
			if links++; links > maxLinks {
				return nil, errors.New("path has too many symbolic links, or they form a loop")
			}
			if strings.HasPrefix(e.node.link, "/") {
				at = at[:1]
			}
			todo = e.node.link + "/" + todo
		default:
			return nil, fmt.Errorf("%q in its path is not a directory", short(name))
		}
	}
	return at, nil
}

// directory returns the directory at p.
func (t *tree) directory(p string, layer int) (*node, error) {
	at, err := t.walk(p, layer)
	if err != nil {
		return nil, err
	}
	return at[len(at)-1].node, nil
}

// openDirectory returns the directory to which the layer is about to add an entry. It marks the directories on the
// path, so that a whiteout of the same layer, even a later one, keeps them.
func (t *tree) openDirectory(p string, layer int) (*node, error) {
	at, err := t.walk(p, layer)
	if err != nil {
		return nil, err
	}
	for _, e := range at {
		e.layer = max(e.layer, layer)
	}
	return at[len(at)-1].node, nil
}

// put puts the node into a directory, in place of whatever was there.
func (t *tree) put(dir *node, name string, n *node, layer int) error {
	if len(name) > maxName {
		return fmt.Errorf("name is %d bytes long, Linux allows %d", len(name), maxName)
	}
	if n.kind == tar.TypeDir {
		n.pathLength = dir.pathLength + 1 + len(name)
	}
	if dir.pathLength+1+len(name) > maxPath {
		return fmt.Errorf("lands deeper than the %d bytes of path that Linux allows", maxPath)
	}
	if t.metadata += int64(len(name)); t.metadata > t.limits.MetadataBytes {
		return t.tooMuchMetadata()
	}
	dir.children[name] = &entry{node: n, layer: layer}
	return nil
}

// file returns the regular file at p, or nil. It follows symbolic links.
func (t *tree) file(p string) *node {
	for range maxLinks {
		dir, err := t.directory(path.Dir(p), -1)
		if err != nil {
			return nil
		}
		e := t.child(dir, path.Base(p))
		switch {
		case e == nil:
			return nil
		case e.node.kind == tar.TypeReg:
			return e.node
		case e.node.kind != tar.TypeSymlink:
			return nil
		case strings.HasPrefix(e.node.link, "/"):
			p = e.node.link
		default:
			p = path.Dir(p) + "/" + e.node.link
		}
	}
	return nil
}
