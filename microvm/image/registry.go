package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// registries finds images in the network: in the mirrors of a reference's registry, then in the registry itself.
type registries struct {
	mirrors   map[string][]Mirror // by registry
	transport http.RoundTripper
	platform  v1.Platform
}

// endpoint is a repository on one server, with credentials for it.
type endpoint struct {
	ref    name.Reference
	auth   authn.Authenticator
	access string // digest of the credentials; "" without any
}

// endpoints returns the endpoints to try, in order: the mirrors and then the registry, each with each of the
// credentials that match it, or without any if none match.
func (r *registries) endpoints(ref name.Reference, keyring Keyring) ([]endpoint, error) {
	var refs []name.Reference
	for _, m := range r.mirrors[ref.Context().RegistryStr()] {
		at, err := m.rename(ref)
		if err != nil {
			return nil, err
		}
		refs = append(refs, at)
	}
	var all []endpoint
	for _, at := range append(refs, ref) {
		credentials := credentials(keyring, at.Context())
		for _, c := range credentials {
			sum := sha256.Sum256([]byte(c.Username + "\x00" + c.Password))
			all = append(all, endpoint{ref: at, auth: authn.FromConfig(c), access: hex.EncodeToString(sum[:])})
		}
		if len(credentials) == 0 {
			all = append(all, endpoint{ref: at, auth: authn.Anonymous})
		}
	}
	return all, nil
}

// digest returns the digest that the reference has now. It downloads nothing, since registries count downloads.
func (r *registries) digest(ctx context.Context, e endpoint) (v1.Hash, error) {
	p, err := r.puller(e)
	if err != nil {
		return v1.Hash{}, err
	}
	d, err := p.Head(ctx, e.ref)
	if err != nil {
		return v1.Hash{}, err
	}
	return d.Digest, nil
}

// find describes the image for this host's platform.
func (r *registries) find(ctx context.Context, e endpoint) (*found, error) {
	p, err := r.puller(e)
	if err != nil {
		return nil, err
	}
	d, err := p.Get(ctx, e.ref)
	if err != nil {
		return nil, explain(err, e, "check the repository and the tag")
	}
	top := d.Digest
	if d.MediaType.IsIndex() {
		chosen, err := choose(d.Manifest, r.platform)
		if err != nil {
			return nil, err
		}
		if d, err = p.Get(ctx, e.ref.Context().Digest(chosen.String())); err != nil {
			return nil, explain(err, e, "check the repository and the tag")
		}
	}
	config, layers, err := fromManifest(d.Manifest)
	if err != nil {
		return nil, err
	}
	return &found{
		where: "registry " + e.ref.Context().RegistryStr(), digest: top.String(), config: config, layers: layers,
		access: e.access,
		open: func(ctx context.Context, b blob) (io.ReadCloser, error) {
			// By digest and from this repository only: never from an address that a manifest may name (descriptor.urls).
			l, err := p.Layer(ctx, e.ref.Context().Digest(b.digest.String()))
			if err != nil {
				return nil, err
			}
			r, err := l.Compressed()
			if err != nil {
				return nil, explain(err, e, "push the image again")
			}
			return r, nil
		},
	}, nil
}

func (r *registries) puller(e endpoint) (*remote.Puller, error) {
	return remote.NewPuller(remote.WithAuth(e.auth), remote.WithTransport(r.transport), remote.WithUserAgent("nodeless"))
}

// explain adds a remedy to the usual errors of a registry.
func explain(err error, e endpoint, remedyMissing string) error {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("registry %s cannot be reached: %w; check the name and the network, or name a mirror",
			e.ref.Context().RegistryStr(), err)
	}
	registry := e.ref.Context().RegistryStr()
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		if e.access == "" {
			return fmt.Errorf("registry %s wants credentials: %w; name a secret for it in the pod's imagePullSecrets",
				registry, err)
		}
		return fmt.Errorf("registry %s refuses the credentials: %w; check the pod's imagePullSecrets", registry, err)
	case http.StatusNotFound:
		return fmt.Errorf("registry %s does not have it: %w; %s", registry, err, remedyMissing)
	case http.StatusTooManyRequests:
		return fmt.Errorf("registry %s limits its downloads: %w; use credentials or a mirror", registry, err)
	}
	return err
}

// Mirror is a host that serves another registry's images.
type Mirror struct {
	Host   string // host or host:port
	Prefix string // put before the repository, such as "proxy/docker.io"; may be empty
	Plain  bool   // http without TLS
}

// ParseMirrors parses values of --registry-mirror, "REGISTRY=URL", for example
// "docker.io=https://mirror.example:5000/proxy".
func ParseMirrors(values []string) (map[string][]Mirror, error) {
	mirrors := map[string][]Mirror{}
	for _, v := range values {
		registry, address, ok := strings.Cut(v, "=")
		scheme, rest, okURL := strings.Cut(address, "://")
		host, prefix, _ := strings.Cut(rest, "/")
		reg, err := name.NewRegistry(registry, name.WeakValidation)
		if !ok || !okURL || registry == "" || host == "" || scheme != "http" && scheme != "https" || err != nil {
			return nil, fmt.Errorf("registry mirror %q: write REGISTRY=http[s]://HOST[:PORT][/PREFIX], such as "+
				"docker.io=https://mirror.example:5000", v)
		}
		m := Mirror{Host: host, Prefix: strings.Trim(prefix, "/"), Plain: scheme == "http"}
		if _, err := m.rename(reg.Repo("probe").Tag("latest")); err != nil {
			return nil, fmt.Errorf("registry mirror %q: %w", v, err)
		}
		mirrors[reg.RegistryStr()] = append(mirrors[reg.RegistryStr()], m)
	}
	return mirrors, nil
}

// rename returns the reference to the same image on the mirror.
func (m Mirror) rename(ref name.Reference) (name.Reference, error) {
	options := []name.Option{name.WeakValidation}
	if m.Plain {
		options = append(options, name.Insecure)
	}
	return name.ParseReference(path.Join(m.Host, m.Prefix, ref.Context().RepositoryStr())+suffix(ref), options...)
}
