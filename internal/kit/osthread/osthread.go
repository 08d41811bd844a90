// Package osthread runs functions that change their operating-system thread: its namespaces, its filter of system
// calls.
package osthread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Run runs f on a thread that ends afterwards, and returns what f returns. It never uses the main thread: Go cannot
// end that one, so what f changed would stay, also in /proc/self, which is the main thread's for the whole process.
func Run(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- f() // never unlocked, so that the thread ends with the goroutine
			return
		}
		defer runtime.UnlockOSThread()
		done <- Run(f) // while this goroutine holds the main thread, no other can run on it
	}()
	return <-done
}
