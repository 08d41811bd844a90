package vmm

import "testing"

// SetCgroupRoot makes this process look for cgroups elsewhere during a test.
func SetCgroupRoot(t *testing.T, dir string) {
	before := cgroupRoot
	cgroupRoot = dir
	t.Cleanup(func() { cgroupRoot = before })
}

// SetKVM makes a driver look for KVM's device elsewhere.
func (q *QEMU) SetKVM(path string) { q.kvm = path }
