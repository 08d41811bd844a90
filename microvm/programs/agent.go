// Package programs contains the guest's programs, so that a host needs only the nodeless binary, a VMM and a kernel.
// scripts/guest-agent builds them from microvm/guest; scripts/build runs it first. A binary built without them
// reports this when they are needed (ADR 15).
package programs

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"

	"github.com/nodeless/nodeless/microvm/vmm"
)

//go:embed programs
var programs embed.FS

// ErrNotBuilt is returned by a binary that was built without the guest's programs.
var ErrNotBuilt = errors.New("this binary was built without the microVM guest agent: build it with make build, " +
	"or run scripts/guest-agent before go build")

// Programs returns the guest's programs.
func Programs() (a vmm.Agent, err error) {
	if a.Init, err = program("init"); err == nil {
		a.Enter, err = program("enter")
	}
	return a, err
}

func program(name string) ([]byte, error) {
	packed, err := programs.ReadFile("programs/" + name + ".gz")
	if err != nil {
		return nil, ErrNotBuilt
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the guest's %s: %w", name, err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpack the guest's %s: %w", name, err)
	}
	return b, nil
}
