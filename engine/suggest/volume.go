package suggest

import (
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// dropPort removes one of the pod's host ports, where daemons occupy it on every node.
func (c *search) dropPort() model.Change {
	for i, port := range c.shape.HostPorts {
		shape := *c.shape
		shape.HostPorts = slices.Delete(slices.Clone(shape.HostPorts), i, i+1)
		if pool := c.fitsSomewhere(&shape, true); pool != "" {
			return model.Change{Rule: model.RuleHostPort, Object: port.String(), Pool: pool, From: port.String()}
		}
	}
	return model.Change{}
}

// freeVolume waits for the pod that uses a single-pod volume.
func (c *search) freeVolume() model.Change {
	shape := *c.shape
	shape.Volumes = slices.Clone(shape.Volumes)
	from := "another pod"
	for i := range shape.Volumes {
		v := &shape.Volumes[i]
		if !v.Alone || v.ID != c.reason.Object {
			continue
		}
		v.Alone = false
		if user, ok := c.user(v.ID); ok {
			from = "pod " + user.Namespace + "/" + user.Name
		}
	}
	if pool := c.fitsSomewhere(&shape, true); pool != "" {
		return model.Change{Rule: model.RuleVolumeInUse, Object: c.reason.Object, Pool: pool, From: from, To: "ended"}
	}
	return model.Change{}
}

// user returns a pod on a node that uses the volume.
func (c *search) user(volume string) (model.PodKey, bool) {
	for i := range c.s.Nodes {
		for _, p := range c.s.Nodes[i].Pods {
			if p.Terminal || p.Shape < 0 || p.Shape >= len(c.s.Shapes) {
				continue
			}
			if slices.ContainsFunc(c.s.Shapes[p.Shape].Volumes, func(v model.Volume) bool { return v.ID == volume }) {
				return p.PodKey, true
			}
		}
	}
	return model.PodKey{}, false
}

// volumeInUse reports whether a pod on a node uses a single-pod volume of the shape.
func (c *search) volumeInUse(shape *model.Shape) bool {
	return slices.ContainsFunc(shape.Volumes, func(v model.Volume) bool {
		if !v.Alone {
			return false
		}
		_, used := c.user(v.ID)
		return used
	})
}

// fewerVolumes removes as many volumes of one driver as exceed the limit of the node that takes most of them. Which
// ones does not matter: all of them are accessible there.
func (c *search) fewerVolumes() model.Change {
	alone, ok := c.neighbours(c.shape, false)
	if !ok {
		return model.Change{}
	}
	var best model.Change
	most := 0
	for i, v := range c.views {
		verdict := v.Verdict(&alone, c.rooms[i], c.s.ResourceNames)
		n, err := strconv.Atoi(verdict.Best)
		if verdict.Rule != model.RuleVolumeLimit || err != nil || n <= most {
			continue
		}
		shape := *c.shape
		shape.Volumes = firstOf(shape.Volumes, verdict.Object, n)
		if c.fits(&shape, v, c.rooms[i], false) {
			most = n
			best = model.Change{
				Rule: model.RuleVolumeLimit, Object: verdict.Object, Pool: v.Pool.Name, From: verdict.Detail,
				To: verdict.Best,
			}
		}
	}
	return best
}

// firstOf keeps at most n volumes of the driver.
func firstOf(volumes []model.Volume, driver string, n int) []model.Volume {
	var out []model.Volume
	kept := map[string]bool{}
	for _, v := range volumes {
		if v.Driver == driver && !kept[v.ID] {
			if len(kept) == n {
				continue
			}
			kept[v.ID] = true
		}
		out = append(out, v)
	}
	return out
}

// morePriority raises the priority to the policy's cutoff.
func (c *search) morePriority() model.Change {
	if c.reason.Detail == "" {
		return model.Change{}
	}
	if pool := c.fitsSomewhere(c.shape, false); pool != "" {
		return model.Change{Rule: model.RulePriority, Object: "priority", Pool: pool, To: c.reason.Detail}
	}
	return model.Change{}
}
