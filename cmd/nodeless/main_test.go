//go:build !noplane

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestUpRefusesChoicesBeforeItBegins(t *testing.T) {
	for flag, value := range map[string]string{"--feature-gates": "NodeRepair", "--preference-policy": "Sometimes"} {
		root := newRoot()
		root.SetArgs([]string{"up", "--detach", "--data-dir", filepath.Join(t.TempDir(), "d"), flag, value})
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
}
