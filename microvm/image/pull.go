package image

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// pull is a pull in progress.
type pull struct {
	p       *Puller
	ref     name.Reference
	name    string // the reference, normalized
	policy  Policy
	keyring Keyring
}

// run tries the sources of this host, then the cache if the policy allows it, then the network.
func (l *pull) run(ctx context.Context) (*Image, error) {
	local, err := findLocal(l.p.sources, l.ref, l.p.registries.platform)
	if err != nil {
		return nil, err
	}
	if local != nil {
		return l.obtain(ctx, local)
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
		return nil, fmt.Errorf("%w: load it on this host, or use the policy IfNotPresent", ErrNeverPull)
	}
	var tried error
	for _, e := range endpoints {
		img, err := l.fromEndpoint(ctx, e)
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

// cached returns the image that the name referred to when it was last resolved, if it is in the cache and the pod may
// read it; otherwise nil.
func (l *pull) cached(endpoints []endpoint) (*Image, error) {
	id, o, ok := l.p.lookUp(l.name)
	if !ok {
		return nil, nil
	}
	allowed := o.Public
	for _, e := range endpoints {
		allowed = allowed || l.p.hasProven(access{l.name, e.access})
	}
	if !allowed || !l.p.store.hold(diskName(id)) {
		return nil, nil
	}
	return l.p.image(id, l.name, l.digestName(o.Digest, id))
}

// fromEndpoint pulls the image from an endpoint.
func (l *pull) fromEndpoint(ctx context.Context, e endpoint) (*Image, error) {
	if id, o, ok := l.p.lookUp(l.name); ok && o.Digest != "" {
		// If the image is unchanged and this pod may read it, there is nothing to download.
		if h, err := l.p.registries.digest(ctx, e); err == nil && h.String() == o.Digest && l.p.store.hold(diskName(id)) {
			l.p.setProven(access{l.name, e.access})
			return l.p.image(id, l.name, l.digestName(o.Digest, id))
		}
	}
	f, err := l.p.registries.find(ctx, e)
	if err != nil {
		return nil, err
	}
	return l.obtain(ctx, f)
}

// obtain makes a disk of the image that was found, unless there is one, and records what the name now refers to.
func (l *pull) obtain(ctx context.Context, f *found) (*Image, error) {
	id := f.config.digest
	present := l.p.store.hold(diskName(id))
	if !present {
		if err := l.p.unpack(ctx, f); err != nil {
			return nil, fmt.Errorf("from %s: %w", f.where, err)
		}
	}
	if err := l.p.setName(l.name, id, origin{Digest: f.digest, Public: f.access == ""}); err != nil {
		l.p.store.release(diskName(id))
		return nil, err
	}
	l.p.setProven(access{l.name, f.access})
	img, err := l.p.image(id, l.name, l.digestName(f.digest, id))
	if err != nil {
		return nil, err
	}
	img.Pulled = !present
	return img, nil
}

// digestName returns the imageID of a container's status.
func (l *pull) digestName(digest string, id v1.Hash) string {
	if digest == "" {
		return id.String()
	}
	return display(l.ref.Context()) + "@" + digest
}

// lookUp returns the image that a name referred to when it was last resolved.
func (p *Puller) lookUp(name string) (v1.Hash, origin, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, rec := range p.records {
		if o, ok := rec.Names[name]; ok {
			return id, o, true
		}
	}
	return v1.Hash{}, origin{}, false
}

// setName records what a name now refers to.
func (p *Puller) setName(name string, id v1.Hash, o origin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetRemoved()
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

// maxProven bounds how many credentials are remembered; some clusters renew theirs daily. A forgotten one costs a
// request to its registry.
const maxProven = 10_000

// setProven remembers that credentials were accepted for a name.
func (p *Puller) setProven(a access) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.proven) >= maxProven {
		clear(p.proven)
	}
	p.proven[a] = true
}

func (p *Puller) hasProven(a access) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proven[a]
}
