//go:build noplane

package main

// The controller's image has no files but the program, which therefore contains certificate authorities and time
// zones.
import (
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
