package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

// Options configure a Puller. Zero values mean the defaults.
type Options struct {
	// CacheBytes bounds the size of all disks and layers together. Default: 20 GiB.
	CacheBytes int64
	// Sources are OCI layouts, docker archives (*.tar) and directories of them. They are tried before any registry.
	Sources []string
	// Mirrors of registries are tried before the registry itself; see ParseMirrors.
	Mirrors map[string][]Mirror
	// Transport to registries, with certificates and proxies. Default: the system's.
	Transport http.RoundTripper
	// Architecture of the guests, as Go calls it. Default: this host's.
	Architecture string
	// Limits of a single image.
	Limits rootdisk.Limits
	// Conversions is how many images are converted to disks at a time. Default: half of this host's CPUs, at least one.
	Conversions int
	// ConversionTime is how long a conversion may take, plus a second for each MiB of the image's layers. Default: 1
	// minute.
	ConversionTime time.Duration
	// Stall is how long a download may make no progress. Default: 1 minute, as in kubelet's former
	// image-pull-progress-deadline.
	Stall time.Duration
}

// Puller pulls images into a directory. It is safe for concurrent use.
type Puller struct {
	store      *store
	sources    []string
	registries registries
	limits     rootdisk.Limits
	stall      time.Duration
	converting chan struct{} // has one element per running conversion
	convert    time.Duration // for an image without layers
	blobs      flights
	disks      flights

	mu      sync.Mutex
	records map[v1.Hash]*record
	proven  map[access]bool
}

// access is a name, and credentials with which it was read in this process.
type access struct {
	name, credentials string
}

// Open opens the cache in dir, which one process at a time may use. It removes what a crash has left unfinished.
func Open(dir string, o Options) (*Puller, error) {
	s, err := openStore(dir, cmp.Or(o.CacheBytes, 20<<30))
	if err != nil {
		return nil, err
	}
	all, err := records(s)
	if err != nil {
		_ = s.close()
		return nil, err
	}
	p := &Puller{
		store: s, sources: o.Sources, limits: o.Limits.OrDefault(), stall: cmp.Or(o.Stall, time.Minute),
		records: all, proven: map[access]bool{},
		converting: make(chan struct{}, cmp.Or(o.Conversions, max(1, runtime.NumCPU()/2))),
		convert:    cmp.Or(o.ConversionTime, time.Minute),
	}
	p.registries = registries{
		mirrors: o.Mirrors, transport: o.Transport,
		platform: v1.Platform{OS: "linux", Architecture: cmp.Or(o.Architecture, runtime.GOARCH)},
	}
	if o.Transport == nil {
		p.registries.transport = remote.DefaultTransport
	}
	p.blobs = flights{store: s, byName: map[string]*flight{}}
	p.disks = flights{store: s, byName: map[string]*flight{}}
	return p, nil
}

// Close closes the cache. Pulls must have ended; disks in use stay readable.
func (p *Puller) Close() error { return p.store.close() }

// Request is a container's request for an image.
type Request struct {
	Reference string
	Policy    Policy  // empty: Always for the tag "latest", else IfNotPresent, as the API server defaults it
	Keyring   Keyring // nil: no credentials
}

// Pull returns the image, from the cache if the policy allows it. The caller releases it when nothing uses its disk.
func (p *Puller) Pull(ctx context.Context, r Request) (*Image, error) {
	ref, err := parse(r.Reference)
	if err != nil {
		return nil, err
	}
	pull := &pull{p: p, ref: ref, name: ref.Name(), policy: r.Policy, keyring: r.Keyring}
	if r.Policy == "" {
		pull.policy = IfNotPresent
		if ref.Identifier() == "latest" {
			pull.policy = Always
		}
	}
	img, err := pull.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", displayRef(ref), err)
	}
	return img, nil
}

// Hold holds a disk of the cache again, after a restart of the host process. id is an Image's ID.
func (p *Puller) Hold(id string) (*Image, error) {
	h, err := v1.NewHash(id)
	if err != nil {
		return nil, fmt.Errorf("image ID %q: %w", id, err)
	}
	if !p.store.hold(diskName(h)) {
		return nil, fmt.Errorf("image %s is not in the cache %s", id, p.store.dir)
	}
	return p.image(h, id, id)
}

// image describes a disk that is held. If it fails it releases the disk.
func (p *Puller) image(id v1.Hash, name, digest string) (*Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec, err := p.record(id)
	if err != nil {
		p.store.release(diskName(id))
		return nil, err
	}
	img := &Image{
		Name: name, ID: id.String(), Digest: digest, Config: rec.Config, Disk: p.store.path(diskName(id)),
		DiskBytes: rec.DiskBytes, accounts: rec.Accounts,
	}
	img.release = sync.OnceFunc(func() { p.store.release(diskName(id)) })
	return img, nil
}

// record returns the record of a disk in the store. p.mu is held.
func (p *Puller) record(id v1.Hash) (*record, error) {
	if rec := p.records[id]; rec != nil {
		return rec, nil
	}
	rec, err := readRecord(p.store, diskName(id))
	if err == nil {
		p.records[id] = rec
	}
	return rec, err
}

// forgetRemoved drops the records of disks that are no longer in the cache. p.mu is held.
func (p *Puller) forgetRemoved() {
	for id := range p.records {
		if !p.store.has(diskName(id)) {
			delete(p.records, id)
		}
	}
}

// unpack makes the root disk of an image and its record, once for all callers that wait for it, and holds the disk.
func (p *Puller) unpack(ctx context.Context, f *found) error {
	id := f.config.digest
	return p.disks.do(ctx, diskName(id), func(ctx context.Context) error {
		config, err := f.configFile(ctx, p.registries.platform)
		if err != nil {
			return err
		}
		layers, release, err := p.fetch(ctx, f, config)
		if err != nil {
			return err
		}
		defer release()
		err = p.makeDisk(ctx, f, config, layers)
		var refused *rootdisk.Refused
		if errors.As(err, &refused) {
			release()
			for _, b := range f.layers { // they are not needed again
				p.store.drop(blobName(b.digest))
			}
		}
		return err
	})
}
