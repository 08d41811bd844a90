package check

import (
	"fmt"

	"github.com/nodeless/nodeless/engine/model"
)

// taker is somebody who has a host port.
type taker struct {
	port    model.HostPort
	planned bool
	who     string
}

// hostPorts: no two pods of a machine have the same port of it, unless both ran before. On a new machine daemons take theirs.
func (j *judge) hostPorts() {
	for _, m := range j.machines {
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

// daemonComes: the daemon runs on the machine in one of its ways at least.
func (j *judge) daemonComes(m *machine, s *model.Shape) bool {
	for _, w := range m.ways {
		if j.daemonRuns(m.catalog, w, s) {
			return true
		}
	}
	return false
}
