package vmm

import "time"

// readTSC reads the processor's time stamp counter.
func readTSC() uint64

// tscKHz measures the frequency of the time stamp counter. A guest of QEMU's microvm machine has no other clock to
// calibrate it with, and a distribution kernel that is not given the frequency hangs in the attempt.
func tscKHz() uint64 {
	const during = 200 * time.Millisecond
	began, from := readTSCAt(readTSC, time.Now)
	time.Sleep(during) //nolint:forbidigo // time is what is measured
	ended, to := readTSCAt(readTSC, time.Now)
	return uint64(float64(to-from) / ended.Sub(began).Seconds() / 1000)
}

// readTSCAt reads the counter and the clock at the same moment. On a busy machine the process may lose its CPU
// between the two reads, for as long as a tenth of the measured time, and guests' clocks would be wrong by that much.
// So it takes the best of several readings: the one during which the counter advanced the least.
func readTSCAt(counter func() uint64, clock func() time.Time) (at time.Time, tsc uint64) {
	least := ^uint64(0)
	for range 16 {
		before, now, after := counter(), clock(), counter()
		if took := after - before; took < least {
			at, tsc, least = now, before+took/2, took
		}
	}
	return at, tsc
}
