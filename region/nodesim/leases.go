package nodesim

import (
	"github.com/nodeless/nodeless/internal/kit/lease"
)

// beating are the Nodes that exist and whose machine runs, or that are played without one.
func (s *Simulator) beating() []lease.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := make([]lease.Node, 0, len(s.booted)+len(s.others))
	add := func(name string) {
		if node, err := s.nodes.Get(name); err == nil {
			nodes = append(nodes, lease.Node{Name: name, UID: node.UID})
		}
	}
	for name, m := range s.booted {
		if !m.ending {
			add(name)
		}
	}
	for name := range s.others {
		if s.booted[name] == nil {
			add(name)
		}
	}
	return nodes
}
