package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// daemonTolerations are the tolerations that the DaemonSet controller adds to its pods (Kubernetes documentation,
// "DaemonSet: taints and tolerations"), so that they run on nodes in every phase of life.
var daemonTolerations = []model.Toleration{
	{Key: "node.kubernetes.io/not-ready", Exists: true, Effect: model.NoExecute},
	{Key: "node.kubernetes.io/unreachable", Exists: true, Effect: model.NoExecute},
	{Key: "node.kubernetes.io/disk-pressure", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/memory-pressure", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/pid-pressure", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/unschedulable", Exists: true, Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/network-unavailable", Exists: true, Effect: model.NoSchedule},
}

// DaemonTypes returns the types on which a daemon may run in some zone and capacity type.
func (v *View) DaemonTypes(d *model.Shape) Bits {
	out := NewBits(len(v.Pool.Types))
	if _, bad := model.Untolerated(v.Pool.Taints, slices.Concat(d.Tolerations, daemonTolerations)); bad {
		return out
	}
	for _, o := range v.Options(d.Required, d.AnyOf) {
		out.add(o.Types)
	}
	return out
}

// addDaemons charges each type with the daemons that may run on it in some zone and capacity type.
func (v *View) addDaemons(daemons []model.Daemon) {
	for i := range daemons {
		on := v.DaemonTypes(&daemons[i].Shape)
		requests := daemons[i].Shape.Requests.NonNegative()
		if ports := daemons[i].Shape.HostPorts; len(ports) > 0 && !on.Empty() {
			v.DaemonPorts = append(v.DaemonPorts, DaemonPorts{on, ports})
		}
		for t := range v.Pool.Types {
			if on.Has(t) {
				v.Overhead[t] = v.Overhead[t].Plus(requests)
			}
		}
	}
	for t := range v.Pool.Types {
		v.Net[t] = v.Pool.Types[t].Allocatable.Minus(v.Overhead[t])
		if !v.Overhead[t].Fits(v.Pool.Types[t].Allocatable) {
			v.Net[t][model.Pods] = min(v.Net[t][model.Pods], 0) // not even a pod without requests fits beside them
		}
	}
}

// PortsOfDaemons returns the host ports that daemons occupy on nodes of the type.
func PortsOfDaemons(v *View, t int) (out []model.HostPort) {
	for _, d := range v.DaemonPorts {
		if d.Types.Has(t) {
			out = append(out, d.Ports...)
		}
	}
	return out
}

// DaemonPortsAllow reports whether no daemon occupies a conflicting port on nodes of the type.
func (v *View) DaemonPortsAllow(ports []model.HostPort, t int) bool {
	for _, d := range v.DaemonPorts {
		for _, port := range ports {
			if port.Port > 0 && d.Types.Has(t) && slices.ContainsFunc(d.Ports, port.Conflicts) {
				return false
			}
		}
	}
	return true
}
