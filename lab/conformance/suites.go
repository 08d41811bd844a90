//go:build suites

package main

// The imports of the suites' test binaries: go.mod and go.sum must contain them.
import (
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "sigs.k8s.io/karpenter/pkg/test"
	_ "sigs.k8s.io/karpenter/test/pkg/environment/common"
)
