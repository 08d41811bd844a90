package vmm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/microvmtest"
	"github.com/nodeless/nodeless/microvm/vmm"
)

// A host without KVM runs guests under emulation. If KVM was asked for, the error names what is missing and what works.
func TestHostWithoutKVM(t *testing.T) {
	q := microvmtest.QEMU(t)
	q.Accelerator = "kvm"
	q.SetKVM(filepath.Join(t.TempDir(), "no-kvm"))
	_, err := q.Probe(t.Context())
	if !errors.Is(err, vmm.ErrNoVMM) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"no-kvm: no such file or directory", "--engine auto"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	q = microvmtest.QEMU(t)
	q.Accelerator = ""
	q.SetKVM(filepath.Join(t.TempDir(), "no-kvm"))
	found, err := q.Probe(t.Context())
	if err != nil || found.Accelerator != "tcg" || !strings.Contains(found.Warning, "since no guest boots with KVM here") {
		t.Errorf("%+v, %v", found, err)
	}
}

// A host without cgroups runs guests, and says once what they lack.
func TestHostWithoutCgroups(t *testing.T) {
	q, root := microvmtest.QEMU(t), t.TempDir()
	vmm.SetCgroupRoot(t, root)
	warns(t, q, "cgroup v2 is mounted neither")
	p, _, err := q.Start(t.Context(), vmm.Spec{ID: fmt.Sprintf("free-%d", os.Getpid()), Dir: t.TempDir(), Shape: small})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	session(t, p)
	for _, file := range []string{"cgroup.controllers", "nodeless"} { // so that no group can be made there
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	warns(t, microvmtest.QEMU(t), "/nodeless: not a directory")
}

// warns checks that a host without limits for its VMMs says so, and the cause, once.
func warns(t *testing.T, q *vmm.QEMU, cause string) {
	t.Helper()
	found, err := q.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lack limits of their own on CPU, memory or processes", cause} {
		if strings.Count(found.Warning, want) != 1 {
			t.Errorf("the warning %q does not say once %q", found.Warning, want)
		}
	}
}

// A host with less memory than a guest needs says so.
func TestHostWithoutMemory(t *testing.T) {
	q := microvmtest.QEMU(t)
	_, _, err := q.Start(t.Context(), vmm.Spec{
		ID: fmt.Sprintf("giant-%d", os.Getpid()), Dir: t.TempDir(), Shape: vmm.Shape{CPUs: 1, MemoryMiB: 1 << 28},
	})
	if err == nil || !strings.Contains(err.Error(), "cannot set up guest memory") {
		t.Errorf("got %v", err)
	}
}
