package image

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Limits on an image's description: far above what any honest image needs, yet small for a host.
const (
	maxLayers      = 512
	maxConfigBytes = 8 << 20
)

// found is an image that was found but not downloaded yet.
type found struct {
	where  string // the source, for messages
	digest string // "sha256:…" of the manifest or index that the reference refers to; empty for docker archives
	config blob   // its digest is the image's ID
	layers []blob // lowest first
	access string // digest of the credentials that were used; empty if anyone may read the image
	open   openBlob
}

// openBlob opens a blob. Its callers verify the digest.
type openBlob func(ctx context.Context, b blob) (io.ReadCloser, error)

// blob is a piece of content. Its size is -1 if the source does not say.
type blob struct {
	digest v1.Hash
	size   int64
}

// fromManifest returns the blobs in an image manifest.
func fromManifest(raw []byte) (config blob, layers []blob, err error) {
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return blob{}, nil, fmt.Errorf("its manifest is no JSON: %w", err)
	}
	switch {
	case m.Config.Digest.Hex == "" || !m.Config.MediaType.IsConfig():
		return blob{}, nil, fmt.Errorf(
			"its manifest (%s, configuration %s) is not a container image's; name an image, not a chart or another artifact",
			m.MediaType, m.Config.MediaType)
	case len(m.Layers) > maxLayers:
		return blob{}, nil, tooManyLayers(len(m.Layers))
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if d.Digest.Algorithm != "sha256" {
			return blob{}, nil, fmt.Errorf("its manifest names a blob by %s; only sha256 is accepted", d.Digest.Algorithm)
		}
	}
	for _, l := range m.Layers {
		layers = append(layers, blob{digest: l.Digest, size: l.Size})
	}
	return blob{digest: m.Config.Digest, size: m.Config.Size}, layers, nil
}

func tooManyLayers(n int) error {
	return fmt.Errorf("it has %d layers, at most %d are accepted; squash it", n, maxLayers)
}

// choose returns the variant for a platform in an index.
func choose(raw []byte, want v1.Platform) (v1.Hash, error) {
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return v1.Hash{}, fmt.Errorf("its index is no JSON: %w", err)
	}
	var has []string
	for _, d := range index.Manifests {
		switch {
		case d.Platform == nil:
			return d.Digest, nil // an index of one image without a platform; its configuration is checked later
		case d.Platform.Satisfies(want):
			return d.Digest, nil
		case d.Platform.OS != "unknown": // others are attestations
			has = append(has, d.Platform.String())
		}
	}
	if len(has) == 0 {
		return v1.Hash{}, fmt.Errorf("its index names no image; build it again for %s", want)
	}
	return v1.Hash{}, platformError(want, strings.Join(has, ", "))
}

func platformError(want v1.Platform, has string) error {
	return fmt.Errorf("%w: it is for %s, this host is %s; build or choose an image for %s", ErrPlatform, has, want,
		want)
}
