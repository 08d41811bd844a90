package check

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// taker is the user of a host port.
type taker struct {
	port    model.HostPort
	planned bool
	who     string
}

// hostPorts: no two pods of a host use the same port, unless both ran before. Daemons take theirs first on a new node
// and on nodes on which they have yet to start.
func (j *coexistence) hostPorts() {
	for _, m := range j.hosts {
		taken := map[string][]taker{}
		take := func(ports []model.HostPort, n int, planned bool, who string) {
			for _, p := range ports {
				if p.Port <= 0 {
					continue
				}
				key := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
				if n > 1 && planned {
					j.fail("host port", who, "and %d pods like it want port %s of %s", n-1, key, m.name)
				}
				for _, t := range taken[key] {
					if (planned || t.planned) && t.who != who && t.port.Conflicts(p) {
						j.fail("host port", who, "wants port %s %s of %s, which %s has", p.IP, key, m.name, t.who)
						break
					}
				}
				taken[key] = append(taken[key], taker{p, planned, who})
			}
		}
		for _, l := range m.loads {
			take(j.s.Shapes[l.shape].HostPorts, l.n, l.planned, podName(l.first))
		}
		if m.launch == nil {
			take(m.node.DaemonPorts, 1, false, "a daemon expected there")
			continue
		}
		for i := range j.s.Daemons {
			d := &j.s.Daemons[i]
			if len(d.Shape.HostPorts) > 0 && j.daemonComes(m, &d.Shape) {
				take(d.Shape.HostPorts, 1, false, "daemon "+d.Namespace+"/"+d.Name)
			}
		}
	}
}

// daemonComes reports whether the daemon runs on the host in at least one of its offerings.
func (j *coexistence) daemonComes(m *host, s *model.Shape) bool {
	for _, w := range m.options {
		if j.daemonRuns(m.catalog, w, s) {
			return true
		}
	}
	return false
}

// volumes: a host has no more volumes of a driver than it can attach, and a single-pod volume has one user.
func (j *coexistence) volumes() {
	type use struct{ users, planned int }
	alone, uses := map[string]bool{}, map[string]use{}
	j.each(func(_ int, _ *host, l *load) {
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
	j.each(func(_ int, m *host, l *load) {
		for _, id := range volumeIDs(&j.s.Shapes[l.shape], func(v *model.Volume) bool { return alone[v.ID] }) {
			if u := uses[id]; l.planned && u.users > 1 {
				j.fail("volume in use", podName(l.first), "on %s has volume %s, which only one pod may use, with %d others",
					m.name, id, u.users-1)
			}
		}
	})
	for _, m := range j.hosts {
		j.attachLimits(m)
	}
}

// attachLimits counts each volume of a host once. Volumes attached before the plan break no limit by themselves.
func (j *coexistence) attachLimits(m *host) {
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

// attachLimit returns the lowest limit among the types that the host may have.
func (j *coexistence) attachLimit(m *host, driver string) (least int64, limited bool) {
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

// volumeIDs returns the distinct volumes of a pod of the shape.
func volumeIDs(s *model.Shape, which func(*model.Volume) bool) (out []string) {
	for i := range s.Volumes {
		if v := &s.Volumes[i]; which(v) && !slices.Contains(out, v.ID) {
			out = append(out, v.ID)
		}
	}
	return out
}
