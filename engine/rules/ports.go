package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// ports are the host ports that pods have taken on each node.
type ports struct {
	all  []model.HostPort
	held map[int][]held // by node
}

// held is a thing that so many pods of a node use: a host port, a volume.
type held struct{ id, n int32 }

// hold adds n to the users of a thing.
func hold(list []held, id, n int32) []held {
	i := slices.IndexFunc(list, func(h held) bool { return h.id == id })
	if i < 0 {
		return append(list, held{id, n})
	}
	if list[i].n += n; list[i].n == 0 {
		list = slices.Delete(list, i, i+1)
	}
	return list
}

func holds(list []held, id int) bool {
	return slices.ContainsFunc(list, func(h held) bool { return h.id == int32(id) && h.n > 0 })
}

func (p *ports) init() { p.held = map[int][]held{} }

// ids are the ports' indices. A port that is not one takes nothing.
func (p *ports) ids(list []model.HostPort) []int {
	var out []int
	for _, port := range list {
		if port.Port <= 0 {
			continue
		}
		i := slices.Index(p.all, port)
		if i < 0 {
			i = len(p.all)
			p.all = append(p.all, port)
		}
		out = append(out, i)
	}
	return out
}

func (p *ports) add(list []model.HostPort, node int, n int32) {
	for _, id := range p.ids(list) {
		p.held[node] = hold(p.held[node], int32(id), n)
	}
}

// taken reports whether a pod of the node has one of the ports, or one that conflicts.
func (p *ports) taken(wanted []int, node int) bool {
	for _, h := range p.held[node] {
		for _, id := range wanted {
			if h.n > 0 && p.all[h.id].Conflicts(p.all[id]) {
				return true
			}
		}
	}
	return false
}
