//go:build !amd64

package vmm

// tscKHz returns 0: there is no time stamp counter.
func tscKHz() uint64 { return 0 }
