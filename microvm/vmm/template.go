package vmm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// template is a stopped guest of a shape whose agent waits for a pod.
type template struct {
	making sync.Mutex                    // held while it is made
	ready  atomic.Pointer[templateFiles] // nil until it is made
}

// templateFiles are the state of a template's devices, and its memory, which clones map copy-on-write.
type templateFiles struct{ state, memory string }

// template returns the template of a shape, ready or not.
func (q *QEMU) template(shape Shape) *template {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.templates == nil {
		q.templates = map[Shape]*template{}
	}
	if q.templates[shape] == nil {
		q.templates[shape] = &template{}
	}
	return q.templates[shape]
}

// open opens the state of a template, which the caller closes. It returns nil if there is no template.
func (t *template) open() (state *os.File, memory string) {
	files := t.ready.Load()
	if files == nil {
		return nil, ""
	}
	if files.complete() {
		if state, err := os.Open(files.state); err == nil {
			return state, files.memory
		}
	}
	t.ready.Store(nil) // it was removed: boot instead
	return nil, ""
}

// Prepare implements Driver. Making a template takes a boot. The template serves until the host reboots or the
// kernel, agent or VMM changes.
func (q *QEMU) Prepare(ctx context.Context, shape Shape) error {
	if _, err := q.Probe(ctx); err != nil {
		return err
	}
	if q.TemplateDir == "" {
		return nil
	}
	t := q.template(shape)
	t.making.Lock()
	defer t.making.Unlock()
	if t.ready.Load() != nil {
		return nil
	}
	basis, err := q.templateBasis()
	if err != nil {
		return err
	}
	q.removeOldTemplates(basis)
	name := fmt.Sprintf("template-%s-%dx%d", basis, shape.CPUs, shape.MemoryMiB)
	files := &templateFiles{
		state: filepath.Join(q.Dir, name+".state"), memory: filepath.Join(q.TemplateDir, name+".memory"),
	}
	if !files.complete() { // otherwise an earlier host process made it
		if err := q.makeTemplate(ctx, files, shape); err != nil {
			return fmt.Errorf("make a template of %d CPUs and %d MiB: %w", shape.CPUs, shape.MemoryMiB, err)
		}
	}
	t.ready.Store(files)
	return nil
}

// complete reports whether the whole template exists; the state file is put in place last.
func (f *templateFiles) complete() bool {
	_, err1 := os.Stat(f.state)
	_, err2 := os.Stat(f.memory)
	return err1 == nil && err2 == nil
}

// removeOldTemplates removes templates of another kernel, agent, VMM or boot, since they use memory.
func (q *QEMU) removeOldTemplates(basis string) {
	for _, dir := range []string{q.Dir, q.TemplateDir} {
		old, _ := filepath.Glob(filepath.Join(dir, "template-*"))
		for _, path := range old {
			if !strings.HasPrefix(filepath.Base(path), "template-"+basis+"-") {
				_ = os.Remove(path)
			}
		}
	}
}

func (q *QEMU) makeTemplate(ctx context.Context, files *templateFiles, shape Shape) (err error) {
	if err := os.MkdirAll(q.TemplateDir, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(q.Dir, "making-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_, _ = os.Remove(files.state), os.Remove(files.memory) // state first: it says that the memory is complete
	defer func() {
		if err != nil {
			_ = os.Remove(files.memory)
		}
	}()
	p, err := q.launch(filepath.Base(dir), dir,
		command{shape: shape, network: noNetwork, memory: files.memory, share: true}, nil)
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := p.probeAgent(ctx, tcgProbeLimit); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tcgProbeLimit)
	defer cancel()
	part := files.state + ".part"
	if err := saveState(ctx, dir, part); err != nil {
		return err
	}
	p.Kill()
	return os.Rename(part, files.state)
}
