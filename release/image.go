package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/nodeless/nodeless/microvm/image/build"
)

// repository is where releases are pushed to, and what the chart's default values name.
const repository = "ghcr.io/nodeless/controller"

// Annotations of images (opencontainers/image-spec/annotations.md).
const (
	annotationName    = "org.opencontainers.image.ref.name"
	annotationVersion = "org.opencontainers.image.version"
	annotationSource  = "org.opencontainers.image.source"
)

// program is the image's only file.
const program = "nodeless"

// nonRoot is the user and group of the controller's process, the fsGroup of Karpenter's chart.
const nonRoot = "65532:65532"

// writeImage compiles the controller for each architecture and makes an image of it.
func writeImage(ctx context.Context, o options) error {
	commit, err := git(ctx, o.root, "rev-parse", "HEAD")
	if err != nil {
		return fmt.Errorf("ask git for the commit: %w", err)
	}
	for _, arch := range o.archs {
		if err := compileRoot(ctx, o, arch); err != nil {
			return err
		}
	}
	digest, err := writeLayout(o, commit)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.say, "%s:%s@%s for %v, in %s\n", repository, o.version, digest, o.archs, filepath.Join(o.out, "image"))
	return nil
}

// writeLayout makes the image for each architecture, an index of them, and for each a bill of materials and a
// provenance statement that refer to it. The same commit gives the same digests.
func writeLayout(o options, commit string) (v1.Hash, error) {
	about := map[string]string{
		annotationVersion: o.version, annotationSource: source,
		"org.opencontainers.image.revision": commit, "org.opencontainers.image.licenses": license,
	}
	index := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), about).(v1.ImageIndex)
	var images []built
	for _, arch := range o.archs {
		b, err := imageOf(o, arch, about)
		if err != nil {
			return v1.Hash{}, err
		}
		images = append(images, b)
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: b.image, Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	path := filepath.Join(o.out, "image")
	if err := os.RemoveAll(path); err != nil {
		return v1.Hash{}, err
	}
	l, err := layout.Write(path, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("make the OCI layout %s: %w", path, err)
	}
	name := repository + ":" + o.version
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{annotationName: name})); err != nil {
		return v1.Hash{}, fmt.Errorf("write the image to %s: %w", path, err)
	}
	for _, b := range images {
		if err := attach(l, b, o.version, commit); err != nil {
			return v1.Hash{}, err
		}
	}
	return index.Digest()
}

// built is the image of one architecture and the program in it.
type built struct {
	image  v1.Image
	binary string
	arch   string
}

// rootOf is the folder that becomes the root of an architecture's image.
func rootOf(o options, arch string) string { return filepath.Join(o.out, "root-"+arch) }

// compileRoot makes the root of an image: the controller, and /tmp.
func compileRoot(ctx context.Context, o options, arch string) error {
	if err := emptyRoot(rootOf(o, arch)); err != nil {
		return err
	}
	binary, err := filepath.Abs(filepath.Join(rootOf(o, arch), program))
	if err != nil {
		return err
	}
	return compile(ctx, o, platform{"linux", arch}, controllerTags, binary)
}

// controllerTags are the build tags of the program without the control plane and microVMs.
const controllerTags = "noplane"

// compile compiles the program for a platform, static and without this machine's paths.
func compile(ctx context.Context, o options, p platform, tags, binary string) error {
	what, long := "program", "up to 20 minutes"
	if tags == controllerTags {
		what, long = "controller", "some minutes"
	}
	fmt.Fprintf(o.say, "Compiling the %s for %s (%s with a cold cache)\n", what, p, long)
	c := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X "+versionVariable+"="+o.version, "-o", binary, "./cmd/nodeless")
	c.Dir, c.Stderr = o.root, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if err := c.Run(); err != nil {
		return fmt.Errorf("compile the %s for %s: %w", what, p, err)
	}
	return nil
}

// emptyRoot makes a root with a /tmp that everybody can write to and nothing else.
func emptyRoot(root string) error {
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	scratch := filepath.Join(root, "tmp")
	if err := os.MkdirAll(scratch, 0o755); err != nil { // #nosec G301 -- in the image all users read it
		return err
	}
	return os.Chmod(scratch, 0o777|os.ModeSticky)
}

// imageOf is the image of an architecture's root.
func imageOf(o options, arch string, about map[string]string) (built, error) {
	root := rootOf(o, arch)
	image, err := build.Image(build.Options{Dir: root, Architecture: arch, Config: v1.Config{
		Entrypoint: []string{"/" + program}, Cmd: []string{"run"}, User: nonRoot, Labels: about, WorkingDir: "/",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
	}})
	if err != nil {
		return built{}, fmt.Errorf("make the image for linux/%s: %w", arch, err)
	}
	image = mutate.Annotations(image, about).(v1.Image)
	return built{image: image, binary: filepath.Join(root, program), arch: arch}, nil
}
