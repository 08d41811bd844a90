// Package programs holds the guest's programs inside the nodeless binary, so that a host needs nothing beside it but
// a VMM and a kernel. They are built from microvm/guest by scripts/guest-agent, which scripts/build runs first; a
// binary built without them says so when it is asked for them (ADR 15).
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
var ErrNotBuilt = errors.New("this binary was built without the microVM guest agent: build it with make build, or run scripts/guest-agent before go build")

// Programs are the guest's.
func Programs() (vmm.Agent, error) {
	init, err := program("init")
	if err != nil {
		return vmm.Agent{}, err
	}
	enter, err := program("enter")
	if err != nil {
		return vmm.Agent{}, err
	}
	return vmm.Agent{Init: init, Enter: enter}, nil
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
