package rootdisk

import (
	"archive/tar"
	"fmt"
)

// Whiteouts (image-spec, layer.md): ".wh.NAME" hides NAME of lower layers, ".wh..wh..opq" everything lower layers put in a directory.
// Other names that begin with ".wh..wh." are the book-keeping of aufs and mean nothing here.
const (
	whiteout       = ".wh."
	opaqueWhiteout = ".wh..opq"
)

// whiteout hides what lower layers have in the directory: name, or everything. What this layer itself puts there stays, whichever of
// the two entries comes first.
func (t *tree) whiteout(dir, name string, layer int) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("whiteout of %q: a whiteout names a file of its own directory", name)
	case len(name) >= len(whiteout) && name[:len(whiteout)] == whiteout && name != opaqueWhiteout:
		return nil
	}
	d, err := t.walk(dir, layer)
	if err != nil {
		return err
	}
	if name == opaqueWhiteout {
		hideLower(d, layer)
		return nil
	}
	if e := d.children[name]; e != nil {
		hideEntry(d, name, e, layer)
	}
	return nil
}

func hideLower(dir *node, layer int) {
	for name, e := range dir.children {
		hideEntry(dir, name, e, layer)
	}
}

func hideEntry(dir *node, name string, e *entry, layer int) {
	switch {
	case e.node.kind == tar.TypeDir:
		hideLower(e.node, layer)
		if e.layer < layer && len(e.node.children) == 0 {
			delete(dir.children, name)
		}
	case e.layer < layer:
		delete(dir.children, name)
	}
}
