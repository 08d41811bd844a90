//go:build noplane

package main

// The image of the controller has no files but the program: certificate authorities and time zones are in it.
import (
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
