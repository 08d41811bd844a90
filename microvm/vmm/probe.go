package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a probe guest's boot. An emulated guest takes 2 seconds on an idle host. One under KVM boots much faster
// or, where KVM is present but does not work, never.
const (
	kvmProbeLimit = 2 * time.Second
	tcgProbeLimit = 60 * time.Second
)

// probeShape is the smallest guest in which Debian's kernel and the agent run.
var probeShape = Shape{CPUs: 1, MemoryMiB: 128}

const tcgWarning = "microVMs run under pure emulation (TCG), since no guest boots with KVM here: 10 to 20 times " +
	"slower, and NOT a security boundary. Use it to try things out."

// Probe implements Driver. It boots a guest with each accelerator, fastest first, and chooses the first whose agent
// answers. Being able to open /dev/kvm proves nothing.
func (q *QEMU) Probe(ctx context.Context) (Capabilities, error) {
	q.once.Do(func() { q.found, q.foundErr = q.probe(ctx) })
	return q.found, q.foundErr
}

// Capabilities returns what Probe has found.
func (q *QEMU) Capabilities() Capabilities { return q.found }

func (q *QEMU) probe(ctx context.Context) (Capabilities, error) {
	if runtime.GOARCH != "amd64" {
		return Capabilities{}, fmt.Errorf("%w: QEMU's microvm machine is for x86-64, this host is %s", ErrNoVMM,
			runtime.GOARCH)
	}
	if err := q.setUp(); err != nil {
		return Capabilities{}, err
	}
	output, err := exec.CommandContext(ctx, q.Binary, "--version").Output()
	if err != nil {
		return Capabilities{}, fmt.Errorf("%w: %s --version: %w", ErrNoVMM, q.Binary, err)
	}
	version, _, _ := strings.Cut(string(output), "\n")
	if output, err = exec.CommandContext(ctx, q.Binary, "-help").Output(); err != nil {
		return Capabilities{}, fmt.Errorf("%w: %s -help: %w", ErrNoVMM, q.Binary, err)
	}
	q.help = string(output)
	kvm, kvmErr := os.OpenFile(cmp.Or(q.kvm, "/dev/kvm"), os.O_RDWR, 0)
	if kvmErr == nil {
		_ = kvm.Close()
	}
	var failures []error
	for _, a := range []struct {
		name, warning string
		limit         time.Duration
		missing       error
	}{
		{name: "kvm", limit: kvmProbeLimit, missing: kvmErr},
		{name: "tcg", limit: tcgProbeLimit, warning: tcgWarning},
	} {
		if q.Accelerator != "" && q.Accelerator != a.name {
			continue
		}
		q.found = Capabilities{Driver: "qemu", Accelerator: a.name, Version: version}
		began := time.Now()
		err := a.missing
		if err == nil {
			err = q.startProbe(ctx, a.limit)
		}
		if err == nil {
			q.found.Boot = time.Since(began)
			q.found.Warning = strings.TrimSpace(a.warning + " " + limitsWarning())
			return q.found, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", a.name, err))
	}
	err = fmt.Errorf("%w boots a guest here: %w", ErrNoVMM, errors.Join(failures...))
	if q.Accelerator == "kvm" {
		err = fmt.Errorf("%w; the engines auto and tcg emulate the guest's CPU instead, slowly: start the host with "+
			"--engine auto", err)
	}
	return Capabilities{}, err
}

// limitsWarning says why the VMMs of this host lack limits beside those of their guests; "" if they have all.
func limitsWarning() string {
	g, _, err := makeGroup(fmt.Sprintf("probe-limits-%d", os.Getpid()), vmmLimits(probeShape))
	g.remove()
	if err == nil {
		return ""
	}
	cause, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Sprintf("The processes that run microVMs lack limits of their own on CPU, memory or processes, and "+
		"compete with this machine's other processes: %s; run the host as root where it may change cgroups.", cause)
}

func (q *QEMU) startProbe(ctx context.Context, limit time.Duration) error {
	dir, err := os.MkdirTemp(q.Dir, "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	id := filepath.Base(dir)
	c := command{shape: probeShape, confine: q.confine(id), network: noNetwork}
	p, err := q.launch(id, dir, c, nil)
	if errors.Is(err, unix.EPERM) && !q.sharesNamespaces { // as in a container without CAP_SYS_ADMIN
		q.sharesNamespaces = true
		p, err = q.launch(id, dir, c, nil)
	}
	if err != nil {
		return err
	}
	defer p.Kill()
	return p.probeAgent(ctx, limit)
}
