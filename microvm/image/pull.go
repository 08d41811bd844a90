package image

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// pull is one request under way.
type pull struct {
	p       *Puller
	ref     name.Reference
	name    string // the reference, normalised
	policy  Policy
	keyring Keyring
}

// run asks the sources of this machine, then the cache as far as the policy allows, then the network.
func (l *pull) run(ctx context.Context) (*Image, error) {
	local, err := findLocal(l.p.sources, l.ref, l.p.registries.platform)
	if err != nil {
		return nil, err
	}
	if local != nil {
		return l.take(ctx, local)
	}
	endpoints, err := l.p.registries.endpoints(l.ref, l.keyring)
	if err != nil {
		return nil, err
	}
	if l.policy != Always {
		if img, err := l.cached(endpoints); img != nil || err != nil {
			return img, err
		}
	}
	if l.policy == Never {
		return nil, fmt.Errorf("%w: load it on this machine, or use the policy IfNotPresent", ErrNeverPull)
	}
	var tried error
	for _, e := range endpoints {
		img, err := l.from(ctx, e)
		if err == nil || ctx.Err() != nil {
			return img, err
		}
		if tried == nil {
			tried = err
		} else {
			tried = fmt.Errorf("%w; then: %w", tried, err) // a pod's status shows one line
		}
	}
	return nil, tried
}

// cached gives what the name meant when it was last resolved, if it is there and the pod may have it; else nil.
func (l *pull) cached(endpoints []endpoint) (*Image, error) {
	id, o, ok := l.p.known(l.name)
	if !ok {
		return nil, nil
	}
	allowed := o.Public
	for _, e := range endpoints {
		allowed = allowed || l.p.hasShown(access{l.name, e.access})
	}
	if !allowed || !l.p.store.hold(diskName(id)) {
		return nil, nil
	}
	return l.p.image(id, l.name, l.digestName(o.Digest, id))
}

// from gets the image from one place of the network.
func (l *pull) from(ctx context.Context, e endpoint) (*Image, error) {
	if id, o, ok := l.p.known(l.name); ok && o.Digest != "" {
		// Unchanged, and this pod may read it: nothing to download.
		if h, err := l.p.registries.digest(ctx, e); err == nil && h.String() == o.Digest && l.p.store.hold(diskName(id)) {
			l.p.show(access{l.name, e.access})
			return l.p.image(id, l.name, l.digestName(o.Digest, id))
		}
	}
	f, err := l.p.registries.find(ctx, e)
	if err != nil {
		return nil, err
	}
	return l.take(ctx, f)
}

// take makes a disk of what was found, unless there is one, and notes what the name means now.
func (l *pull) take(ctx context.Context, f *found) (*Image, error) {
	id := f.config.digest
	present := l.p.store.hold(diskName(id))
	if !present {
		if err := l.p.unpack(ctx, f); err != nil {
			return nil, fmt.Errorf("from %s: %w", f.where, err)
		}
	}
	if err := l.p.learn(l.name, id, origin{Digest: f.digest, Public: f.access == ""}); err != nil {
		l.p.store.release(diskName(id))
		return nil, err
	}
	l.p.show(access{l.name, f.access})
	img, err := l.p.image(id, l.name, l.digestName(f.digest, id))
	if err != nil {
		return nil, err
	}
	img.Pulled = !present
	return img, nil
}

// digestName is the imageID of a container's status.
func (l *pull) digestName(digest string, id v1.Hash) string {
	if digest == "" {
		return id.String()
	}
	return display(l.ref.Context()) + "@" + digest
}

// known says which image a name meant when it was last resolved.
func (p *Puller) known(name string) (v1.Hash, origin, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, rec := range p.records {
		if o, ok := rec.Names[name]; ok {
			return id, o, true
		}
	}
	return v1.Hash{}, origin{}, false
}

// learn notes what a name means now.
func (p *Puller) learn(name string, id v1.Hash, o origin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetGone()
	rec, err := p.record(id)
	if err != nil {
		return err
	}
	if old, ok := rec.Names[name]; ok && old == o {
		return nil
	}
	for other, r := range p.records {
		if _, ok := r.Names[name]; ok && other != id {
			delete(r.Names, name)
			if err := r.write(p.store, other); err != nil {
				return err
			}
		}
	}
	rec.Names[name] = o
	return rec.write(p.store, id)
}

// mostShown bounds the memory of shown credentials, which some clusters renew daily; forgetting one costs a question
// to its registry.
const mostShown = 10_000

func (p *Puller) show(a access) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.shown) >= mostShown {
		clear(p.shown)
	}
	p.shown[a] = true
}

func (p *Puller) hasShown(a access) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown[a]
}
