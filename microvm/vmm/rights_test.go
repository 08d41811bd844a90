package vmm_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/microvmtest"
	"github.com/nodeless/nodeless/microvm/vmm"
)

// A VMM started by root runs as a user of its own without any capability, under a system call filter, in a root
// directory where it owns nothing; all its open files are the VM's. Disks can be added all the same. In user mode it
// shares only the host's network.
func TestAVMMHasNoRights(t *testing.T) {
	q := microvmtest.QEMU(t)
	if os.Geteuid() != 0 {
		t.Skip("this user has no rights to give up")
	}
	t.Run("without a network", func(t *testing.T) {
		aVMMHasNoRights(t, q, nil, []string{"pid", "net", "ipc", "uts", "mnt"})
	})
	t.Run("user mode", func(t *testing.T) { aVMMHasNoRights(t, q, userNet, []string{"pid", "ipc", "uts", "mnt"}) })
}

var userNet = &vmm.UserNet{
	Prefix: netip.MustParsePrefix("10.0.2.0/24"), Gateway: netip.MustParseAddr("10.0.2.1"),
	DNS: netip.MustParseAddr("10.0.2.2"), First: netip.MustParseAddr("10.0.2.15"),
}

func aVMMHasNoRights(t *testing.T, q *vmm.QEMU, network *vmm.UserNet, namespaces []string) {
	dir, disk := t.TempDir(), microvmtest.BusyboxDisk(t)
	p, _, err := q.Start(t.Context(), vmm.Spec{
		ID: fmt.Sprintf("rights-%d", os.Getpid()), Dir: dir, Shape: small, UserNet: network,
		Disks: []vmm.Disk{{Path: disk, Serial: "root", ReadOnly: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	session(t, p)
	proc := fmt.Sprintf("/proc/%d", p.PID())
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^Uid:\t([12]\d{9})\t(\d+)\t(\d+)\t(\d+)$`, `(?m)^Gid:\t[12]\d{9}\t`, `(?m)^CapPrm:\t0{16}$`, `(?m)^CapEff:\t0{16}$`,
		`(?m)^CapInh:\t0{16}$`, `(?m)^NoNewPrivs:\t1$`, `(?m)^Seccomp:\t2$`,
	} {
		if !regexp.MustCompile(want).Match(status) {
			t.Errorf("%s/status does not match %s:\n%s", proc, want, status)
		}
	}
	for _, kind := range namespaces {
		its, err := os.Readlink(proc + "/ns/" + kind)
		ours, _ := os.Readlink("/proc/self/ns/" + kind)
		if its == ours || err != nil {
			t.Errorf("it is in the host's namespace %s, %v", its, err)
		}
	}
	if root, err := os.Readlink(proc + "/root"); root != dir || err != nil {
		t.Errorf("its root directory is %q, %v; want %s", root, err, dir)
	}
	for _, thread := range threadsOf(t, p.PID()) {
		refused := callsRefused(t, thread)
		for _, call := range mustBeRefused {
			if !slices.Contains(refused, call) {
				t.Errorf("its thread %d may call %s; it may not call %v", thread, call, refused)
			}
		}
	}
	fds, err := filepath.Glob(proc + "/fd/*")
	if err != nil || len(fds) < 5 {
		t.Fatalf("%d open files, %v", len(fds), err)
	}
	own := []string{disk, dir + "/", "/dev/null", "/dev/kvm", "anon_inode:", "socket:[", "pipe:["}
	for _, fd := range fds {
		name, _ := os.Readlink(fd)
		if !startsWithAny(name, own) {
			t.Errorf("it has %s open", name)
		}
	}
	if _, err := p.AddDisk(t.Context(), 1, disk); err != nil {
		t.Errorf("add a disk: %v", err)
	}
}

func startsWithAny(s string, beginnings []string) bool {
	for _, b := range beginnings {
		if strings.HasPrefix(s, b) {
			return true
		}
	}
	return false
}
