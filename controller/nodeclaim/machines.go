package nodeclaim

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/nodeless/nodeless/cloud"
)

// machineID is the cloud's ID in a provider ID: its last part.
func machineID(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }

// lister shares a list of all machines among those who asked before it was begun: a thousand claims deleted at once cost
// two lists.
type lister struct {
	list    func(context.Context) ([]cloud.Instance, error)
	asked   atomic.Int64
	turn    chan struct{} // holds one token: whoever has it may look at the rest; a slow list holds up nobody who is told to end
	covered int64         // the last question that machines answers
	last    []cloud.Instance
}

func newLister(list func(context.Context) ([]cloud.Instance, error)) *lister {
	s := &lister{list: list, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// machines is every machine of the cluster, by a list begun after the call.
func (s *lister) machines(ctx context.Context) ([]cloud.Instance, error) {
	mine := s.asked.Add(1)
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.covered >= mine {
		return s.last, nil
	}
	upTo := s.asked.Load()
	got, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	s.covered, s.last = upTo, got
	return got, nil
}
