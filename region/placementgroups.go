package region

import (
	"cmp"
	"slices"
	"strings"
)

// Strategies of placement groups (EC2 user guide, "Placement strategies for your placement groups").
const (
	ClusterPlacement   = "cluster"
	PartitionPlacement = "partition"
	SpreadPlacement    = "spread"
)

// Limits of placement groups (EC2 user guide, "Placement group rules and limitations").
const (
	mostPlacementGroups = 500
	mostPartitions      = 7
	mostSpread          = 7 // running instances per zone of a spread placement group
)

// PlacementGroup is a placement group. Methods return copies, whose tags must not be changed.
type PlacementGroup struct {
	ID, Name, Strategy string
	Partitions         int `json:",omitzero"` // of a partition placement group
	Tags               map[string]string
}

// PlacementChoice is the placement of a launch.
type PlacementChoice struct {
	Group     string // ID or name; "" = none
	Partition int    // 0 = the one with the fewest instances
}

// placementGroups holds the placement groups.
type placementGroups struct {
	*core
	market    *market
	instances *instances
	byID      map[string]*PlacementGroup
}

func newPlacementGroups(c *core, m *market, i *instances) *placementGroups {
	return &placementGroups{core: c, market: m, instances: i, byID: map[string]*PlacementGroup{}}
}

func noPlacementGroup(name string) *APIError {
	return apiError("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
}

// CreatePlacementGroup creates a group and returns it with its ID.
func (s *placementGroups) CreatePlacementGroup(g PlacementGroup) (PlacementGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.Strategy = cmp.Or(g.Strategy, ClusterPlacement)
	if g.Strategy == PartitionPlacement {
		g.Partitions = cmp.Or(g.Partitions, 2)
	}
	switch {
	case g.Name == "" || len(g.Name) > 255:
		return PlacementGroup{}, apiError("InvalidParameterValue", "The name of a placement group has 1 to 255 characters, "+
			"this one %d", len(g.Name))
	case !slices.Contains([]string{ClusterPlacement, PartitionPlacement, SpreadPlacement}, g.Strategy):
		return PlacementGroup{}, apiError("InvalidParameterValue", "Value (%s) for parameter strategy is invalid: give "+
			"cluster, partition or spread", g.Strategy)
	case g.Strategy != PartitionPlacement && g.Partitions != 0:
		return PlacementGroup{}, apiError("InvalidParameterCombination", "PartitionCount is for the strategy partition")
	case g.Partitions < 0 || g.Partitions > mostPartitions:
		return PlacementGroup{}, apiError("InvalidParameterValue",
			"Value (%d) for parameter partitionCount is invalid: give 1 to %d", g.Partitions, mostPartitions)
	case s.find(g.Name) != nil:
		return PlacementGroup{}, apiError("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.",
			g.Name)
	case len(s.byID) >= mostPlacementGroups:
		return PlacementGroup{}, apiError("PlacementGroupLimitExceeded", "A region has at most %d placement groups",
			mostPlacementGroups)
	}
	g.ID = "pg-" + s.newID()
	s.byID[g.ID] = &g
	s.store.put(bucketPlacementGroups, g.ID, g)
	return g, s.commit()
}

// DeletePlacementGroup deletes a group by name. It must have no instances.
func (s *placementGroups) DeletePlacementGroup(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.find(name)
	if g == nil {
		return noPlacementGroup(name)
	}
	if len(s.members(g.ID)) > 0 {
		return apiError("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", g.Name)
	}
	delete(s.byID, g.ID)
	s.store.remove(bucketPlacementGroups, g.ID)
	return s.commit()
}

// PlacementGroups returns all groups, by name.
func (s *placementGroups) PlacementGroups() []PlacementGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []PlacementGroup{}
	for _, g := range s.byID {
		c := *g
		c.Tags = s.tagged(g.ID, g.Tags)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b PlacementGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// find returns a group by ID or name; nil if there is none.
func (s *placementGroups) find(name string) *PlacementGroup {
	if g := s.byID[name]; g != nil {
		return g
	}
	for _, g := range s.byID {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// members returns the active instances of a group.
func (s *placementGroups) members(id string) (out []*instance) {
	for _, i := range s.instances.order {
		if i.PlacementGroupID == id && i.active() {
			out = append(out, i)
		}
	}
	return out
}

// place returns the group and the partition of a launch, or why the group cannot hold it. A cluster placement group
// is in one zone; a spread placement group has at most seven instances per zone, each on its own rack.
func (s *placementGroups) place(c PlacementChoice, instanceType, zone string) (id string, partition int, _ *APIError) {
	if c.Group == "" {
		return "", 0, nil
	}
	g := s.find(c.Group)
	if g == nil {
		return "", 0, noPlacementGroup(c.Group)
	}
	if c.Partition < 0 || c.Partition > g.Partitions {
		return "", 0, apiError("InvalidParameterValue", "Value (%d) for parameter partitionNumber is invalid: placement "+
			"group '%s' has %d partitions", c.Partition, g.Name, g.Partitions)
	}
	if t := s.market.Type(instanceType); g.Strategy == ClusterPlacement && !t.ClusterPlacement() {
		return "", 0, apiError("InvalidParameterCombination", "Cluster placement groups are not supported by the '%s' "+
			"instance type. Specify a supported instance type or change the placement group strategy, and try again.",
			instanceType)
	}
	inZone, used := 0, make([]int, g.Partitions+1)
	for _, i := range s.members(g.ID) {
		if g.Strategy == ClusterPlacement && i.Zone != zone {
			return "", 0, apiError("InvalidPlacementGroup.InUse",
				"The placement group '%s' is in use in another availability zone: %s", g.Name, i.Zone)
		}
		if i.Zone == zone {
			inZone++
			used[i.Partition]++
		}
	}
	if g.Strategy == SpreadPlacement && inZone >= mostSpread {
		return "", 0, apiError("InsufficientInstanceCapacity", "You've reached the limit of instances in this spread "+
			"placement group. A spread placement group can have up to seven instances per Availability Zone.")
	}
	if partition = c.Partition; partition == 0 && g.Partitions > 0 {
		partition = 1 + slices.Index(used[1:], slices.Min(used[1:]))
	}
	return g.ID, partition, nil
}
