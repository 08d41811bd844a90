package vmm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/microvm/wire"
)

// templates are stopped guests whose agents wait for a pod: their memory, which clones map copy on write, and the
// state of their devices.
type templates struct {
	mu     sync.Mutex
	ready  map[Shape]template
	makers map[Shape]*sync.Mutex
}

type template struct{ state, memory string }

// use opens a template, if there is one; release is to be called when the machine's process runs.
func (t *templates) use(shape Shape) (state *os.File, memory string, release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.ready[shape]
	if !ok {
		return nil, "", nil
	}
	state, err := os.Open(found.state)
	if err != nil {
		delete(t.ready, shape) // somebody removed it: boot instead
		return nil, "", nil
	}
	return state, found.memory, func() { _ = state.Close() }
}

// Prepare makes the template of a shape. It takes a boot; the result serves until the machine restarts or kernel,
// agent or VMM change.
func (q *QEMU) Prepare(ctx context.Context, shape Shape) error {
	if _, err := q.Probe(ctx); err != nil {
		return err
	}
	if q.TemplateDir == "" {
		return nil
	}
	maker := q.templates.maker(shape)
	maker.Lock()
	defer maker.Unlock()
	if q.templates.has(shape) {
		return nil
	}
	basis, err := q.basis()
	if err != nil {
		return err
	}
	q.removeOldTemplates(basis)
	t := q.templateFiles(basis, shape)
	if !t.complete() { // an earlier process of the host may have made it
		if err := q.makeTemplate(ctx, t, shape); err != nil {
			return fmt.Errorf("make a template of %d CPUs and %d MiB: %w", shape.CPUs, shape.MemoryMiB, err)
		}
	}
	q.templates.add(shape, t)
	return nil
}

// maker lets one at a time make the template of a shape.
func (t *templates) maker(shape Shape) *sync.Mutex {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.makers == nil {
		t.makers = map[Shape]*sync.Mutex{}
	}
	if t.makers[shape] == nil {
		t.makers[shape] = &sync.Mutex{}
	}
	return t.makers[shape]
}

func (t *templates) has(shape Shape) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.ready[shape]
	return ok
}

func (t *templates) add(shape Shape, made template) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ready == nil {
		t.ready = map[Shape]template{}
	}
	t.ready[shape] = made
}

func (q *QEMU) templateFiles(basis string, shape Shape) template {
	name := fmt.Sprintf("template-%s-%dx%d", basis, shape.CPUs, shape.MemoryMiB)
	return template{state: filepath.Join(q.Dir, name+".state"), memory: filepath.Join(q.TemplateDir, name+".memory")}
}

// complete reports whether the template is there as a whole: the state is put in its place last.
func (t template) complete() bool {
	_, err1 := os.Stat(t.state)
	_, err2 := os.Stat(t.memory)
	return err1 == nil && err2 == nil
}

// removeOldTemplates removes those of another kernel, agent, VMM or boot: they hold memory.
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

func (q *QEMU) makeTemplate(ctx context.Context, t template, shape Shape) (err error) {
	if err := os.MkdirAll(q.TemplateDir, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(q.Dir, "making-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_ = os.Remove(t.memory)
	defer func() {
		if err != nil {
			_ = os.Remove(t.memory)
		}
	}()
	m, err := q.launch(filepath.Base(dir), dir,
		command{shape: shape, network: noNetwork, memory: t.memory, share: true}, nil)
	if err != nil {
		return err
	}
	defer m.Kill()
	ctx, cancel := context.WithTimeout(ctx, tcgProbeLimit)
	defer cancel()
	c, err := m.Dial(ctx)
	if err != nil {
		return fmt.Errorf("%w %s", err, m.LastWords())
	}
	go func() { _ = c.Serve() }()
	err = c.Call(ctx, wire.KindHello, nil, nil)
	_ = c.Close()
	if err != nil {
		return err
	}
	part := t.state + ".part"
	if err := saveState(ctx, dir, part); err != nil {
		return err
	}
	m.Kill()
	return os.Rename(part, t.state)
}
