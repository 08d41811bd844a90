package rootdisk

import (
	"archive/tar"
	"fmt"
	"strings"
)

// Whiteouts (image-spec, layer.md): ".wh.NAME" hides NAME of lower layers, ".wh..wh..opq" hides everything that lower
// layers put into a directory. Other names that begin with ".wh..wh." are bookkeeping of aufs and mean nothing here.
const (
	whiteout       = ".wh."
	opaqueWhiteout = ".wh..opq"
)

// whiteout hides what lower layers have in the directory: name, or everything. What this layer itself adds there
// stays, whether it comes before or after the whiteout.
func (t *tree) whiteout(dir, name string, layer int) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("whiteout of %q: a whiteout names a file of its own directory", name)
	case strings.HasPrefix(name, whiteout) && name != opaqueWhiteout:
		return nil
	}
	d, err := t.directory(dir, layer)
	if err != nil {
		return err
	}
	if name == opaqueWhiteout {
		d.hides = layer
		return nil
	}
	e := t.child(d, name)
	switch {
	case e == nil:
	case e.layer < layer:
		delete(d.children, name)
	case e.node.kind == tar.TypeDir:
		e.node.hides = layer
	}
	return nil
}
