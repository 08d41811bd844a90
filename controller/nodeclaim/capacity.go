package nodeclaim

import "github.com/nodeless/nodeless/cloud"

// addCapacity adds to an instance the resources that NodeOverlays set for its type and those that its Auto Scaling
// group's tags declare: until the Node shows them, pods that wait for it must be able to count on them.
func (l *launcher) addCapacity(req *cloud.LaunchRequest, i *cloud.Instance) {
	l.cluster.Equip(req.Class, i)
	f := l.cluster.Overlaid(req.Pool)
	if f == nil {
		return
	}
	for k, n := range f.Capacity[i.Type] {
		if n > 0 {
			i.Capacity[k], i.Allocatable[k] = n, n
		}
	}
}
