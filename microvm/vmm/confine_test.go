package vmm

import (
	"slices"
	"strings"
	"testing"
)

// QEMU 7.2, 8.2 and 9.1 name the options differently.
func TestHowQEMUIsToldToGiveUpItsRights(t *testing.T) {
	for help, want := range map[string]string{
		"\n-chroot dir     chroot to dir\n-runas user     change to user":                                         "-chroot . -runas 7:7",
		"\n-run-with [async-teardown=on|off][,chroot=dir]\n    Set\n-runas user     change to user=id":            "-runas 7:7 -run-with chroot=.",
		"\n-run-with [async-teardown=on|off][,chroot=dir][user=username|uid:gid]\n                Set\n-prom-env": "-run-with chroot=.,user=7:7",
	} {
		if got := strings.Join(confinement(help, 7), " "); got != want {
			t.Errorf("%q for %q, want %q", got, help, want)
		}
	}
}

func TestEachVMsVMMIsAnotherUser(t *testing.T) {
	seen := map[uint32]string{}
	for _, id := range []string{"", "a", "b", "web-1", "web-2", strings.Repeat("x", 300)} {
		u := userOf(id)
		if other, ok := seen[u]; ok || u < firstUser || u >= firstUser+mostUsers || u != userOf(id) {
			t.Errorf("VM %q is user %d, as VM %q", id, u, other)
		}
		seen[u] = id
	}
	if !slices.Contains(strings.Split(sandbox(true), ","), "spawn=deny") || strings.Contains(sandbox(false), "allow") {
		t.Errorf("system calls: %s", sandbox(true))
	}
}
