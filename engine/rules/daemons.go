package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// daemonTolerations are what the DaemonSet controller adds to its pods (Kubernetes documentation, "DaemonSet: taints and
// tolerations"), so that they run on nodes with troubles of their life cycle.
var daemonTolerations = []model.Toleration{
	{Key: "node.kubernetes.io/not-ready", Exists: true, Effect: model.NoExecute},
	{Key: "node.kubernetes.io/unreachable", Exists: true, Effect: model.NoExecute},
	{Key: "node.kubernetes.io/disk-pressure", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/memory-pressure", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/pid-pressure", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/unschedulable", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/network-unavailable", Exists: true, Effect: model.NoSchedule},
}

// addDaemons charges each type with the daemons that may run on it in some zone and capacity type.
func (v *View) addDaemons(daemons []model.Daemon) {
	for i := range daemons {
		d := &daemons[i].Shape
		if _, bad := model.Untolerated(v.Pool.Taints, slices.Concat(d.Tolerations, daemonTolerations)); bad {
			continue
		}
		requests := d.Requests.NonNegative()
		charged := NewBits(len(v.Pool.Types))
		for _, o := range v.Options(d.Required, d.AnyOf) {
			for t := range v.Pool.Types {
				if o.Types.Has(t) && !charged.Has(t) {
					charged.Set(t)
					v.Overhead[t] = v.Overhead[t].Plus(requests)
				}
			}
		}
		if len(d.HostPorts) > 0 && !charged.Empty() {
			v.DaemonPorts = append(v.DaemonPorts, DaemonPorts{charged, d.HostPorts})
		}
	}
	for t := range v.Pool.Types {
		v.Net[t] = v.Pool.Types[t].Allocatable.Minus(v.Overhead[t])
	}
}

// DaemonsLeave reports whether no daemon takes a port that conflicts with these on machines of the type.
func (v *View) DaemonsLeave(ports []model.HostPort, t int) bool {
	for _, d := range v.DaemonPorts {
		for _, port := range ports {
			if port.Port > 0 && d.Types.Has(t) && slices.ContainsFunc(d.Ports, port.Conflicts) {
				return false
			}
		}
	}
	return true
}
