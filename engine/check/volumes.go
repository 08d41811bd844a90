package check

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// volumes: a machine takes no more volumes of a driver than it can attach, and who needs a volume alone has it alone.
func (j *judge) volumes() {
	type use struct{ users, planned int }
	alone, uses := map[string]bool{}, map[string]use{}
	j.each(func(_ int, _ *machine, l *load) {
		for _, id := range volumeIDs(&j.s.Shapes[l.shape], func(*model.Volume) bool { return true }) {
			u := uses[id]
			u.users += l.n
			if l.planned {
				u.planned += l.n
			}
			uses[id] = u
		}
		for _, id := range volumeIDs(&j.s.Shapes[l.shape], func(v *model.Volume) bool { return v.Alone }) {
			alone[id] = true
		}
	})
	j.each(func(_ int, m *machine, l *load) {
		for _, id := range volumeIDs(&j.s.Shapes[l.shape], func(v *model.Volume) bool { return alone[v.ID] }) {
			if u := uses[id]; l.planned && u.users > 1 {
				j.fail("volume in use", podName(l.first), "on %s has volume %s, which only one pod may use, with %d others", m.name, id, u.users-1)
			}
		}
	})
	for _, m := range j.machines {
		j.attachLimits(m)
	}
}

// attachLimits counts each volume of a machine once. What was attached before is never too much.
func (j *judge) attachLimits(m *machine) {
	attached, fresh, who := map[string][]string{}, map[string]int{}, map[string]model.PodKey{}
	var drivers []string
	for _, planned := range []bool{false, true} {
		for _, l := range m.loads {
			if l.planned != planned {
				continue
			}
			for _, v := range j.s.Shapes[l.shape].Volumes {
				if v.Driver == "" || slices.Contains(attached[v.Driver], v.ID) {
					continue
				}
				attached[v.Driver] = append(attached[v.Driver], v.ID)
				if planned && fresh[v.Driver] == 0 {
					drivers = append(drivers, v.Driver)
				}
				if planned {
					fresh[v.Driver]++
					who[v.Driver] = l.first
				}
			}
		}
	}
	for _, driver := range drivers {
		if most, ok := j.attachLimit(m, driver); ok && int64(len(attached[driver])) > most {
			j.fail("volume limit", podName(who[driver]), "%s would have %d volumes of %s, %d of them new; it can take %d",
				m.name, len(attached[driver]), driver, fresh[driver], most)
		}
	}
}

// attachLimit is the least of what the machine may turn out to take.
func (j *judge) attachLimit(m *machine, driver string) (least int64, limited bool) {
	var names []string
	c := m.catalog
	if m.node != nil {
		if most, ok := model.AttachLimitOf(m.node.AttachLimits, driver); ok || m.node.State != model.InFlight {
			return most, ok
		}
		c, names = j.pools[m.node.Pool], mayBecome(m.node)
	} else {
		names = m.launch.Types
	}
	for _, name := range names {
		k := c.kind(name)
		if k == nil {
			continue
		}
		if most, ok := model.AttachLimitOf(k.AttachLimits, driver); ok && (!limited || most < least) {
			least, limited = most, true
		}
	}
	return least, limited
}

// volumeIDs are the distinct volumes of a pod of the shape.
func volumeIDs(s *model.Shape, which func(*model.Volume) bool) (out []string) {
	for i := range s.Volumes {
		if v := &s.Volumes[i]; which(v) && !slices.Contains(out, v.ID) {
			out = append(out, v.ID)
		}
	}
	return out
}
