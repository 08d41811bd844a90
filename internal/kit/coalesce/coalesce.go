// Package coalesce shares the result of an expensive read among callers that ask at about the same time.
package coalesce

import (
	"context"
	"sync/atomic"
)

// Reader shares one read among all callers that asked before it began: a thousand simultaneous callers cost two
// reads, and no caller gets a result older than its call. It is safe for concurrent use.
type Reader[T any] struct {
	read    func(context.Context) (T, error)
	asked   atomic.Int64
	token   chan struct{} // its holder owns the fields below; waiting for it ends with the caller's context
	covered int64         // number of the last call that last answers
	last    T
}

// New returns a Reader that calls read.
func New[T any](read func(context.Context) (T, error)) *Reader[T] {
	r := &Reader[T]{read: read, token: make(chan struct{}, 1)}
	r.token <- struct{}{}
	return r
}

// Read returns the result of a read that began after the call.
func (r *Reader[T]) Read(ctx context.Context) (T, error) {
	var none T
	mine := r.asked.Add(1)
	select {
	case <-r.token:
		defer func() { r.token <- struct{}{} }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if r.covered >= mine {
		return r.last, nil
	}
	upTo := r.asked.Load()
	got, err := r.read(ctx)
	if err != nil {
		return none, err
	}
	r.covered, r.last = upTo, got
	return got, nil
}
