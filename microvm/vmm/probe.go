package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Limits of a probe guest's boot. An emulated guest takes 2 seconds on an idle machine; one on KVM boots in far less
// or, where KVM only pretends, never.
const (
	kvmProbeLimit = 2 * time.Second
	tcgProbeLimit = 60 * time.Second
)

// probeShape is the smallest guest in which Debian's kernel and the agent run.
var probeShape = Shape{CPUs: 1, MemoryMiB: 128}

const tcgWarning = "microVMs run under pure emulation (TCG), since no guest boots with KVM here: 10 to 20 times slower, and NOT a security boundary. Use it to try things out."

// Probe boots a guest with each accelerator, the fastest first, and takes the one whose agent answers. That /dev/kvm
// can be opened says nothing.
func (q *QEMU) Probe(ctx context.Context) (Capabilities, error) {
	q.once.Do(func() { q.found, q.foundErr = q.probe(ctx) })
	return q.found, q.foundErr
}

func (q *QEMU) probe(ctx context.Context) (Capabilities, error) {
	if runtime.GOARCH != "amd64" {
		return Capabilities{}, fmt.Errorf("%w: QEMU's microvm machine is for x86-64, this machine is %s", ErrNoVMM,
			runtime.GOARCH)
	}
	if err := q.setUp(); err != nil {
		return Capabilities{}, err
	}
	version, err := exec.CommandContext(ctx, q.Binary, "--version").Output()
	if err != nil {
		return Capabilities{}, fmt.Errorf("%w: %s --version: %w", ErrNoVMM, q.Binary, err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err == nil {
		_ = kvm.Close()
	}
	var failures []error
	for _, c := range []Capabilities{
		{Accelerator: "kvm", SecurityBoundary: true},
		{Accelerator: "tcg", Warning: tcgWarning},
	} {
		c.Driver, c.Version = DriverQEMU, first
		limit := tcgProbeLimit
		if c.Accelerator == "kvm" {
			if err != nil && q.Accelerator == "" {
				continue
			}
			limit = kvmProbeLimit
		}
		if q.Accelerator != "" && q.Accelerator != c.Accelerator {
			continue
		}
		q.found = c
		began := time.Now()
		if err := q.bootProbe(ctx, limit); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", c.Accelerator, err))
			continue
		}
		c.Boot = time.Since(began)
		return c, nil
	}
	return Capabilities{}, fmt.Errorf("%w boots a guest here: %w", ErrNoVMM, errors.Join(failures...))
}

func (q *QEMU) bootProbe(ctx context.Context, limit time.Duration) error {
	dir, err := os.MkdirTemp(q.Dir, "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m, err := q.launch(filepath.Base(dir), dir, command{shape: probeShape, network: noNetwork}, nil)
	if err != nil {
		return err
	}
	defer m.Kill()
	go func() {
		select {
		case <-m.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	c, err := m.Dial(ctx)
	if err != nil {
		return fmt.Errorf("the agent of the probe guest does not answer within %s: %w %s", limit, err, m.LastWords())
	}
	return c.Close()
}

// Capabilities are what Probe found.
func (q *QEMU) Capabilities() Capabilities { return q.found }
