package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// volumes are those that pods use: where they are attached and, of those that only one pod may use, by how many.
type volumes struct {
	all   []volume
	byID  map[string]int
	held  map[int][]held // by node
	users []int32        // pods anywhere, by volume
}

type volume struct {
	driver string
	alone  bool
}

// init knows from the beginning which volumes are for one pod only, whichever shape says so.
func (v *volumes) init(shapes []model.Shape) {
	v.held, v.byID = map[int][]held{}, map[string]int{}
	for i := range shapes {
		v.ids(shapes[i].Volumes)
	}
}

// ids are the distinct volumes' indices.
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

// volumeRule is what the volumes' use and the node's attach limits say.
func (st *State) volumeRule(x *shapeState, node int) model.Rule {
	v := &st.volumes
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
		if most, ok := st.attachLimit(node, driver); ok && st.exceeds(x, node, driver, most) {
			return model.RuleVolumeLimit
		}
	}
	return ""
}

// exceeds counts what the pod would attach anew, and what is attached. A pod that attaches nothing new is never refused.
func (st *State) exceeds(x *shapeState, node int, driver string, most int64) bool {
	v := &st.volumes
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

// attachLimit is the node's; of a machine in flight that does not say, the least of its possible types.
func (st *State) attachLimit(node int, driver string) (int64, bool) {
	n := st.node(node)
	if most, ok := model.AttachLimitOf(n.AttachLimits, driver); ok || n.State != model.InFlight {
		return most, ok
	}
	least, limited := int64(0), false
	for _, t := range possibleTypes(n, st.types[n.Pool]) {
		if most, ok := model.AttachLimitOf(t.AttachLimits, driver); ok && (!limited || most < least) {
			least, limited = most, true
		}
	}
	return least, limited
}

// volumesReach reports whether each volume can be had on the node.
func (st *State) volumesReach(list []model.Volume, node int) bool {
	for i := range list {
		topology := list[i].Topology
		if len(topology) > 0 && !slices.ContainsFunc(topology, func(rs model.Requirements) bool { return st.satisfies(node, rs) }) {
			return false
		}
	}
	return true
}
