package rootdisk

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const paxXattr = "SCHILY.xattr."

// maxAccounts is the maximum size of an account file; a larger file is ignored.
const maxAccounts = 4 << 20

// writer writes the tree as one tar: directories and links first, then the contents of files in the order of the
// layers, then other names of hard-linked files. So parents precede children, and targets precede links.
type writer struct {
	ctx      context.Context
	tar      *tar.Writer
	paths    int64 // bytes of all paths written so far
	tree     *tree
	contents [][]*node // by layer
	further  []link
	copies   map[*node]*bytes.Buffer
}

type link struct {
	parent *node
	name   string
	to     *node
}

func (n *node) path() string {
	var parts []string
	for at := n; at.parent != nil; at = at.parent {
		parts = append(parts, at.name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

func (n *node) header() *tar.Header {
	h := &tar.Header{
		Typeflag: n.kind, Name: n.path(), Linkname: n.link, Size: n.size, Mode: n.mode, Uid: n.uid,
		Gid: n.gid, ModTime: n.mtime, Format: tar.FormatPAX,
	}
	if n.kind == tar.TypeDir {
		h.Name += "/"
	}
	if len(n.xattrs) > 0 {
		h.PAXRecords = map[string]string{}
		for k, v := range n.xattrs {
			h.PAXRecords[paxXattr+k] = v
		}
	}
	return h
}

// header writes a header. It bounds the total length of paths: where links and short names add up to long paths, the
// tar could be a thousand times as large as the layers.
func (w *writer) header(h *tar.Header) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.paths += int64(len(h.Name) + len(h.Linkname)); w.paths > 2*w.tree.limits.MetadataBytes {
		return fmt.Errorf("write %q: %w: the image's paths take more than %d bytes", short(h.Name), errTooMuch,
			2*w.tree.limits.MetadataBytes)
	}
	if err := w.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("write %q: %w", short(h.Name), err)
	}
	return nil
}

// walk writes everything that has no content, sorted by name, and remembers the rest.
func (w *writer) walk(dir *node) error {
	for _, name := range w.tree.list(dir) {
		n := w.tree.child(dir, name).node
		if n.parent != nil {
			w.further = append(w.further, link{parent: dir, name: name, to: n})
			continue
		}
		n.parent, n.name = dir, name
		if n.kind == tar.TypeReg {
			w.contents[n.layer] = append(w.contents[n.layer], n)
			continue
		}
		if err := w.header(n.header()); err != nil {
			return err
		}
		if n.kind == tar.TypeDir {
			if err := w.walk(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// layer reads a layer a second time and writes the contents of files that are visible.
func (w *writer) layer(s *stream, nodes []*node) error {
	slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.seq, b.seq) })
	r := tar.NewReader(s)
	for seq := 0; len(nodes) > 0; seq++ {
		h, err := r.Next()
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if err != nil {
			return s.refuse(fmt.Errorf("changed while it was read: %w", err), remedyPull)
		}
		n := nodes[0]
		if seq < n.seq {
			continue
		}
		if h.Size != n.size {
			return s.refuse(fmt.Errorf("changed while it was read: %q is %d bytes, was %d", short(h.Name), h.Size, n.size),
				remedyPull)
		}
		nodes = nodes[1:]
		if err := w.header(n.header()); err != nil {
			return err
		}
		var from io.Reader = r
		if c := w.copies[n]; c != nil {
			from = io.TeeReader(r, c)
		}
		if _, err := io.Copy(w.tar, from); err != nil {
			return fmt.Errorf("write %q: %w", short(h.Name), err)
		}
	}
	return nil
}

func (w *writer) links() error {
	for _, l := range w.further {
		at := &node{parent: l.parent, name: l.name}
		if err := w.header(&tar.Header{
			Typeflag: tar.TypeLink, Name: at.path(), Linkname: l.to.path(),
			Format: tar.FormatPAX,
		}); err != nil {
			return err
		}
	}
	return nil
}

// write writes the whole tree as a tar, and returns copies of the account files.
func (t *tree) write(ctx context.Context, layers []Layer, out io.Writer) (accounts Accounts, err error) {
	w := &writer{
		ctx: ctx, tree: t, tar: tar.NewWriter(out), contents: make([][]*node, len(layers)),
		copies: map[*node]*bytes.Buffer{},
	}
	var passwd, group bytes.Buffer
	for p, buffer := range map[string]*bytes.Buffer{"etc/passwd": &passwd, "etc/group": &group} {
		if n := t.file(p); n != nil && n.size <= maxAccounts {
			w.copies[n] = buffer
		}
	}
	root := t.root.node.header()
	root.Name = "./"
	if err := w.header(root); err != nil {
		return Accounts{}, err
	}
	if err := w.walk(t.root.node); err != nil {
		return Accounts{}, err
	}
	for i, l := range layers {
		if len(w.contents[i]) == 0 {
			continue
		}
		s, err := open(ctx, l, t.limits)
		if err != nil {
			return Accounts{}, err
		}
		err = w.layer(s, w.contents[i])
		s.close()
		if err != nil {
			return Accounts{}, err
		}
	}
	if err := errors.Join(w.links(), w.tar.Close()); err != nil {
		return Accounts{}, err
	}
	return Accounts{Passwd: passwd.Bytes(), Group: group.Bytes()}, nil
}
