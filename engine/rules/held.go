package rules

// openHeld counts the ports and volumes of the pods that are there.
func (st *State) openHeld() {
	if st.holding {
		return
	}
	st.holding = true
	st.gather()
	st.ports.init()
	st.volumes.init(st.s.Shapes)
	for shape := range st.s.Shapes {
		if s := &st.s.Shapes[shape]; len(s.HostPorts) == 0 && len(s.Volumes) == 0 {
			continue
		}
		for _, runs := range st.pods.where.of(shape, true) {
			for _, r := range runs {
				st.hold(shape, int(r.node), r.n)
			}
		}
	}
}

func (st *State) hold(shape, node int, n int32) {
	if s := &st.s.Shapes[shape]; len(s.HostPorts) > 0 || len(s.Volumes) > 0 {
		st.ports.add(s.HostPorts, node, n)
		st.volumes.add(s.Volumes, node, n)
	}
}
