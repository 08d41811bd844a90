// Package kubeversion stamps the Kubernetes version into the embedded components. Kubernetes' own builds do so with
// linker flags; built as a Go module, its API server and kubectl would call themselves "v0.0.0-master+$Format:%H$".
package kubeversion

import (
	_ "unsafe" // for the links below

	"k8s.io/component-base/version"
)

// Version is the version of module k8s.io/kubernetes in go.mod; a test compares the two.
const Version = "v1.36.2"

// The variables that Kubernetes' linker flags set (component-base/version/base.go).
var (
	//go:linkname gitVersion k8s.io/component-base/version.gitVersion
	gitVersion string
	//go:linkname gitMajor k8s.io/component-base/version.gitMajor
	gitMajor string
	//go:linkname gitMinor k8s.io/component-base/version.gitMinor
	gitMinor string
)

func init() {
	gitVersion, gitMajor, gitMinor = Version, "1", "36"
	if err := version.SetDynamicVersion(Version); err != nil {
		panic(err) // cannot happen: the two are equal
	}
}
