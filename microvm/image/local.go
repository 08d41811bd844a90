package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Annotations that name an image in an OCI layout's index.json: the specification's, and containerd's, which holds the
// full name where the first one holds only the tag.
const (
	annotationName       = "org.opencontainers.image.ref.name"
	annotationContainerd = "io.containerd.image.name"
)

// findLocal looks for a reference in the sources of this host, in their order: OCI layouts, docker archives, or
// directories of them. It reads them each time, so that it sees rebuilt images at once. It returns nil if none has it.
func findLocal(sources []string, ref name.Reference, platform v1.Platform) (*found, error) {
	for _, source := range sources {
		places, err := expand(source)
		if err != nil {
			return nil, fmt.Errorf("image source %s: %w", source, err)
		}
		for _, place := range places {
			look := findInLayout
			if strings.HasSuffix(place, ".tar") {
				look = findInArchive
			}
			f, err := look(place, ref, platform)
			if err != nil {
				return nil, fmt.Errorf("image source %s: %w", place, err)
			}
			if f != nil {
				return f, nil
			}
		}
	}
	return nil, nil
}

// expand returns the layouts and archives at a path: the path itself, or those directly below it. A source that does
// not exist yet is empty.
func expand(source string) ([]string, error) {
	if strings.HasSuffix(source, ".tar") || isLayout(source) {
		return []string{source}, nil
	}
	list, err := os.ReadDir(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var places []string
	for _, e := range list {
		if p := filepath.Join(source, e.Name()); strings.HasSuffix(p, ".tar") || isLayout(p) {
			places = append(places, p)
		}
	}
	return places, nil
}

func isLayout(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "oci-layout"))
	return err == nil && info.Mode().IsRegular()
}

func findInLayout(dir string, ref name.Reference, platform v1.Platform) (*found, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, fmt.Errorf("%w; an OCI layout has an index.json", err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("index.json is no index: %w; build the layout again", err)
	}
	for _, d := range index.Manifests {
		if !named(d, ref) {
			continue
		}
		read := func(h v1.Hash) ([]byte, error) {
			b := blob{digest: h, size: -1}
			return readBlob(context.Background(), layoutBlobs(dir), b)
		}
		manifest, err := read(d.Digest)
		if err == nil && d.MediaType.IsIndex() {
			var chosen v1.Hash
			if chosen, err = choose(manifest, platform); err == nil {
				manifest, err = read(chosen)
			}
		}
		if err != nil {
			return nil, err
		}
		config, layers, err := fromManifest(manifest)
		if err != nil {
			return nil, err
		}
		return &found{
			where: "OCI layout " + dir, digest: d.Digest.String(), config: config, layers: layers,
			open: layoutBlobs(dir),
		}, nil
	}
	return nil, nil
}

// layoutBlobs opens blobs of a layout. Links among them cannot lead out of it.
func layoutBlobs(dir string) openBlob {
	return func(_ context.Context, b blob) (io.ReadCloser, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer func() { _ = root.Close() }()
		return root.Open(filepath.Join("blobs", b.digest.Algorithm, b.digest.Hex))
	}
}

// named reports whether an entry of the index is the reference's image.
func named(d v1.Descriptor, ref name.Reference) bool {
	if digest, ok := ref.(name.Digest); ok {
		return d.Digest.String() == digest.DigestStr()
	}
	for _, key := range []string{annotationName, annotationContainerd} {
		if n := d.Annotations[key]; strings.ContainsAny(n, "/:") {
			if other, err := parse(n); err == nil && other.Name() == ref.Name() {
				return true
			}
		}
	}
	return false
}
