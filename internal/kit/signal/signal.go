// Package signal wakes a goroutine that waits for changes.
package signal

// Signal tells its receiver that something has changed. Changes before it receives count as one.
type Signal chan struct{}

// New returns a Signal that is not set.
func New() Signal { return make(Signal, 1) }

// Set sets the signal. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
