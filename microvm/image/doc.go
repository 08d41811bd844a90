// Package image gives a pod the root disk of its container image: it resolves the reference (local OCI layouts and
// docker archives first, then mirrors, then the registry), downloads and verifies the layers, makes one read-only
// ext4 disk of them (package rootdisk) and keeps disks and layers by digest in a cache of bounded size. It also says
// how an image's own configuration and a container's spec combine into a process.
package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Errors of Pull, to be told apart with errors.Is. Everything else a registry, a disk or an image is to blame for
// comes as it is, with the image's name, the cause and a remedy.
var (
	// ErrName: the reference is no image name. Reason InvalidImageName of a kubelet.
	ErrName = errors.New("invalid image name")
	// ErrNeverPull: the image is not on this machine and the pull policy is Never. Reason ErrImageNeverPull of a kubelet.
	ErrNeverPull = errors.New("image is not present with pull policy of Never")
	// ErrPlatform: no variant of the image runs on this machine.
	ErrPlatform = errors.New("image is for another platform")
	// ErrCacheFull: images in use leave no room for another.
	ErrCacheFull = errors.New("the image cache is full")
)

// Policy is a container's imagePullPolicy.
type Policy string

// The policies of the Kubernetes API.
const (
	Always       Policy = "Always"
	IfNotPresent Policy = "IfNotPresent"
	Never        Policy = "Never"
)

// parse reads a reference as docker and the kubelet do: "busybox" is docker.io/library/busybox:latest.
func parse(reference string) (name.Reference, error) {
	ref, err := name.ParseReference(reference, name.WeakValidation)
	if err == nil && strings.Contains(ref.Context().RegistryStr(), "..") {
		err = errors.New("its registry is no host name")
	}
	if err != nil {
		return nil, fmt.Errorf("%w %q: %v; write [registry/]repository[:tag|@sha256:digest]", ErrName, reference, err)
	}
	return ref, nil
}

// display is a repository's name as people write it: docker.io, not the host that serves it.
func display(repo name.Repository) string {
	registry := repo.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	return registry + "/" + repo.RepositoryStr()
}

func displayRef(ref name.Reference) string {
	separator := ":"
	if _, ok := ref.(name.Digest); ok {
		separator = "@"
	}
	return display(ref.Context()) + separator + ref.Identifier()
}
