//go:build suites

package main

// What the suites' test binaries import: go.mod and go.sum have to hold it.
import (
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "sigs.k8s.io/karpenter/pkg/test"
	_ "sigs.k8s.io/karpenter/test/pkg/environment/common"
)
