package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// attachments are the host ports that pods occupy and the volumes that they use. They are counted once a shape that
// has some is examined.
type attachments struct {
	*nodes
	pods    *podIndex
	counted bool
	ports   ports
	volumes volumes
}

// open counts the ports and volumes of the pods that are bound already, and the ports of daemons expected on nodes.
func (at *attachments) open() {
	if at.counted {
		return
	}
	at.counted = true
	at.pods.gather()
	at.ports.held = map[int][]held{}
	at.volumes.init(at.s.Shapes)
	for shape := range at.s.Shapes {
		if s := &at.s.Shapes[shape]; len(s.HostPorts) == 0 && len(s.Volumes) == 0 {
			continue
		}
		for _, runs := range at.pods.where.of(shape, true) {
			for _, r := range runs {
				at.hold(shape, int(r.node), r.n)
			}
		}
	}
	for node := range at.Nodes() {
		at.ports.add(at.Node(node).DaemonPorts, node, 1)
	}
}

func (at *attachments) hold(shape, node int, n int32) {
	if s := &at.s.Shapes[shape]; len(s.HostPorts) > 0 || len(s.Volumes) > 0 {
		at.ports.add(s.HostPorts, node, n)
		at.volumes.add(s.Volumes, node, n)
	}
}

// ports are the host ports that pods occupy on each node.
type ports struct {
	all  []model.HostPort
	held map[int][]held // by node
}

// held is something that n pods of a node use: a host port or a volume.
type held struct{ id, n int32 }

// hold adds n users.
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

// ids returns the indices of the ports. It skips invalid ports, which occupy nothing.
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

// taken reports whether a pod on the node occupies one of the ports or one that conflicts.
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

// volumes are the volumes that pods use: the nodes they are attached to and the number of their users.
type volumes struct {
	all   []volume
	byID  map[string]int
	held  map[int][]held // by node
	users []int32        // on all nodes, by volume
}

type volume struct {
	driver string
	alone  bool
}

// init registers the volumes of all shapes: whether a volume is for one pod alone must be known before any pod uses
// it.
func (v *volumes) init(shapes []model.Shape) {
	v.held, v.byID = map[int][]held{}, map[string]int{}
	for i := range shapes {
		v.ids(shapes[i].Volumes)
	}
}

// ids returns the indices of the distinct volumes.
func (v *volumes) ids(list []model.Volume) []int {
	var out []int
	for i := range list {
		id, ok := v.byID[list[i].ID]
		if !ok {
			id = len(v.all)
			v.byID[list[i].ID] = id
			v.all = append(v.all, volume{driver: list[i].Driver})
			v.users = append(v.users, 0)
		}
		v.all[id].alone = v.all[id].alone || list[i].Alone
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func (v *volumes) add(list []model.Volume, node int, n int32) {
	for _, id := range v.ids(list) {
		v.users[id] += n
		v.held[node] = hold(v.held[node], int32(id), n)
	}
}

// rule returns the rule that the host ports or the volumes of a shape violate on a node, "" if they fit.
func (at *attachments) rule(x *shapeState, node int) model.Rule {
	if len(x.ports) > 0 && at.ports.taken(x.ports, node) {
		return model.RuleHostPort
	}
	if len(x.volumes) == 0 {
		return ""
	}
	return at.volumeRule(x, node)
}

// volumeRule applies single-pod access and the node's attach limits.
func (at *attachments) volumeRule(x *shapeState, node int) model.Rule {
	v := &at.volumes
	for _, id := range x.volumes {
		if v.all[id].alone && v.users[id] > 0 {
			return model.RuleVolumeInUse
		}
	}
	for i, id := range x.volumes {
		driver := v.all[id].driver
		if driver == "" || slices.ContainsFunc(x.volumes[:i], func(o int) bool { return v.all[o].driver == driver }) {
			continue
		}
		if most, ok := at.attachLimit(node, driver); ok && at.exceeds(x, node, driver, most) {
			return model.RuleVolumeLimit
		}
	}
	return ""
}

// exceeds reports whether the volumes that the pod would attach, with those attached already, exceed the limit. A pod
// that attaches nothing new is never refused.
func (at *attachments) exceeds(x *shapeState, node int, driver string, most int64) bool {
	v := &at.volumes
	fresh, attached := int64(0), int64(0)
	for _, id := range x.volumes {
		if v.all[id].driver == driver && !holds(v.held[node], id) {
			fresh++
		}
	}
	for _, h := range v.held[node] {
		if h.n > 0 && v.all[h.id].driver == driver {
			attached++
		}
	}
	return fresh > 0 && attached+fresh > most
}
