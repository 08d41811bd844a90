package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// findInArchive looks for an image in the output of `docker save`. Layers may or may not be compressed there, so
// their diff IDs identify them.
func findInArchive(path string, ref name.Reference, _ v1.Platform) (*found, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return nil, fmt.Errorf("is not a docker archive: %w; write it with `docker save`", err)
	}
	for _, d := range manifest {
		i := slices.IndexFunc(d.RepoTags, func(tag string) bool {
			other, err := parse(tag)
			return err == nil && other.Name() == ref.Name()
		})
		if i < 0 {
			continue
		}
		tag, err := name.NewTag(d.RepoTags[i], name.WeakValidation)
		if err != nil {
			return nil, err
		}
		img, err := tarball.ImageFromPath(path, &tag)
		if err != nil {
			return nil, fmt.Errorf("is damaged: %w; write it again with `docker save`", err)
		}
		return describeArchive(path, img, len(d.Layers))
	}
	return nil, nil
}

// describeArchive describes an image for which the archive's manifest names so many layers.
func describeArchive(path string, img v1.Image, layers int) (*found, error) {
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, fmt.Errorf("is damaged: %w; write it again with `docker save`", err)
	}
	id, size, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("its configuration is no JSON: %w; write it again with `docker save`", err)
	}
	if n := len(config.RootFS.DiffIDs); n != layers { // package tarball would panic
		return nil, fmt.Errorf("its manifest names %d layers, its configuration %d; write it again with `docker save`",
			layers, n)
	}
	if layers > maxLayers {
		return nil, tooManyLayers(layers)
	}
	f := &found{where: "docker archive " + path, config: blob{digest: id, size: size}}
	for _, h := range config.RootFS.DiffIDs {
		f.layers = append(f.layers, blob{digest: h, size: -1})
	}
	f.open = func(_ context.Context, b blob) (io.ReadCloser, error) {
		if b.digest == id {
			return io.NopCloser(bytes.NewReader(raw)), nil
		}
		l, err := img.LayerByDiffID(b.digest)
		if err != nil {
			return nil, err
		}
		return l.Uncompressed()
	}
	return f, nil
}
