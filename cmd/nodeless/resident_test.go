package main

import (
	"runtime"
	"strings"
	"testing"
)

// What is forgotten is read again: everything still works afterwards.
func TestForgettingTheStartLosesNothing(t *testing.T) {
	written := strings.Repeat("written since", 1000)
	forgetStart()
	runtime.GC()
	if root := newRoot(); root.Long == "" || strings.Count(written, "since") != 1000 {
		t.Error("something was lost")
	}
	forgetStart()
}
