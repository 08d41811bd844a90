package vmm

import "time"

// readTSC reads the processor's time stamp counter.
func readTSC() uint64

// tscKHz measures the frequency of the time stamp counter. A guest of QEMU's microvm machine has no other clock to
// measure it by, and a distribution kernel that is not told hangs in the attempt.
func tscKHz() uint64 {
	const during = 200 * time.Millisecond
	began, from := time.Now(), readTSC()
	time.Sleep(during) //nolint:forbidigo // time is what is measured
	to, took := readTSC(), time.Since(began)
	return uint64(float64(to-from) / took.Seconds() / 1000)
}
