// Package image provides the root disks of container images. A Puller resolves a reference (in local OCI layouts and
// docker archives first, then in mirrors, then in the registry), downloads and verifies the layers, converts them to
// one read-only ext4 disk (package rootdisk), and keeps disks and layers by digest in a cache of bounded size. The
// package also combines an image's configuration and a container's spec into a process.
package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Errors of Pull, to be distinguished with errors.Is. Other errors name the image, the cause and a remedy.
var (
	// ErrName: the reference is not an image name; a kubelet's reason InvalidImageName.
	ErrName = errors.New("invalid image name")
	// ErrNeverPull: the image is not on this host and the pull policy is Never; a kubelet's reason ErrImageNeverPull.
	ErrNeverPull = errors.New("image is not present with pull policy of Never")
	// ErrPlatform: no variant of the image runs on this host.
	ErrPlatform = errors.New("image is for another platform")
	// ErrCacheFull: the images in use leave no room for another.
	ErrCacheFull = errors.New("the image cache is full")
)

// Policy is a container's imagePullPolicy.
type Policy string

// Policies of the Kubernetes API.
const (
	Always       Policy = "Always"
	IfNotPresent Policy = "IfNotPresent"
	Never        Policy = "Never"
)

// parse parses a reference as docker and kubelets do: "busybox" is docker.io/library/busybox:latest.
func parse(reference string) (name.Reference, error) {
	ref, err := name.ParseReference(reference, name.WeakValidation)
	if err == nil && strings.Contains(ref.Context().RegistryStr(), "..") {
		err = errors.New("its registry is no host name")
	}
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w; write [registry/]repository[:tag|@sha256:digest]", ErrName, reference, err)
	}
	return ref, nil
}

// display returns a repository's name as users write it: with docker.io, not with the host that serves it.
func display(repo name.Repository) string {
	registry := repo.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	return registry + "/" + repo.RepositoryStr()
}

func displayRef(ref name.Reference) string { return display(ref.Context()) + suffix(ref) }

// suffix returns the end of a reference: its tag or digest.
func suffix(ref name.Reference) string {
	if _, ok := ref.(name.Digest); ok {
		return "@" + ref.Identifier()
	}
	return ":" + ref.Identifier()
}
