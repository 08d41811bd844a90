package region

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// groupLaunches chooses what groups launch, and launches it.
type groupLaunches struct {
	*groupRecords
	launcher *launcher
	hooks    *groupHooks
}

// LaunchConfiguration is the predecessor of launch templates.
type LaunchConfiguration struct {
	Name, ARN     string
	CreatedAt     time.Time
	Data          TemplateData
	SpotMaxMicros int64 `json:",omitempty"` // if set, its instances are spot instances
}

// CreateLaunchConfiguration creates a launch configuration, which is immutable.
func (s *groupLaunches) CreateLaunchConfiguration(want LaunchConfiguration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case want.Name == "" || len(want.Name) > 255:
		return apiError("ValidationError", "LaunchConfigurationName must have 1 to 255 characters")
	case s.configurations[want.Name] != nil:
		return apiError("AlreadyExists", "Launch Configuration by this name already exists - A launch configuration already "+
			"exists with the name %s", want.Name)
	case len(s.configurations) >= maxConfigurations:
		return apiError("LimitExceeded", "You have reached the limit of %d launch configurations", maxConfigurations)
	}
	if err := s.checkData(&want.Data, ""); err != nil {
		return err
	}
	want.CreatedAt, want.ARN = s.clock.Now(), s.autoScalingARN("launchConfiguration", want.Name)
	s.configurations[want.Name] = &want
	s.store.put(bucketConfigurations, want.Name, want)
	return s.commit()
}

// LaunchConfigurations returns all launch configurations, by name.
func (s *groupLaunches) LaunchConfigurations() []LaunchConfiguration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []LaunchConfiguration
	for _, name := range slices.Sorted(maps.Keys(s.configurations)) {
		out = append(out, *s.configurations[name])
	}
	return out
}

// DeleteLaunchConfiguration deletes a launch configuration that no group uses.
func (s *groupLaunches) DeleteLaunchConfiguration(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.configurations[name] == nil {
		return noConfiguration(name)
	}
	for _, g := range s.groups {
		if g.Launch.Configuration == name {
			return apiError("ResourceInUse", "Cannot delete launch configuration %s because it is attached to "+
				"AutoScalingGroup %s", name, g.Name)
		}
	}
	delete(s.configurations, name)
	s.store.remove(bucketConfigurations, name)
	return s.commit()
}

func noConfiguration(name string) *APIError {
	return apiError("ValidationError", "Launch configuration name not found - A launch configuration with the name: %s "+
		"does not exist", name)
}

// checkLaunch returns an error if a group cannot launch what its settings specify.
func (s *groupLaunches) checkLaunch(want GroupSettings) error {
	ways, l := 0, want.Launch
	for _, given := range []bool{l.Configuration != "", l.Template != TemplateRef{}, l.Mixed != nil} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return apiError("ValidationError", "Valid requests must contain either launchTemplate, LaunchConfigurationName or "+
			"MixedInstancesPolicy parameter.")
	}
	if m := l.Mixed; m != nil {
		if err := m.check(); err != nil {
			return err
		}
	}
	choices, failure := s.choices(want, OnDemand)
	if failure != nil {
		return failure
	}
	for _, c := range choices {
		if err := s.checkData(c.data, c.instanceType); err != nil {
			return err
		}
	}
	return nil
}

// named returns l with the ID and the name of each launch template in it that exists.
func (s *groupLaunches) named(l GroupLaunch) GroupLaunch {
	both := func(ref *TemplateRef) {
		if t, err := s.launcher.templates.find(ref.ID, ref.Name); err == nil {
			ref.ID, ref.Name = t.ID, t.Name
		}
	}
	both(&l.Template)
	if l.Mixed != nil {
		mixed := *l.Mixed
		mixed.Overrides = slices.Clone(mixed.Overrides)
		both(&mixed.Template)
		for i := range mixed.Overrides {
			both(&mixed.Overrides[i].Template)
		}
		l.Mixed = &mixed
	}
	return l
}

// checkData returns an error if a template or configuration cannot be launched as it is.
func (s *groupLaunches) checkData(d *TemplateData, instanceType string) error {
	instanceType = cmp.Or(instanceType, d.InstanceType)
	switch {
	case instanceType == "":
		return apiError("ValidationError", "You must use a valid fully-formed launch template. "+
			"The request must contain the parameter InstanceType")
	case s.launcher.market.Type(instanceType) == nil:
		return apiError("ValidationError", "You must use a valid fully-formed launch template. "+
			"Invalid value '%s' for InstanceType.", instanceType)
	case s.launcher.images.image(d.ImageID) == nil:
		return apiError("ValidationError", "You must use a valid fully-formed launch template. "+
			"The image id '[%s]' does not exist", d.ImageID)
	}
	if err := s.launcher.checkData(d, d.ImageID); err != nil {
		return apiError("ValidationError", "You must use a valid fully-formed launch template. %s", err.Message)
	}
	return nil
}

func (m *MixedInstances) check() error {
	spot := []string{LowestPrice, CapacityOptimized, CapacityOptimizedPrioritized, PriceCapacityOptimized}
	switch {
	case m.OnDemandPercentage < 0 || m.OnDemandPercentage > 100 || m.OnDemandBase < 0:
		return apiError("ValidationError", "OnDemandPercentageAboveBaseCapacity must be 0 to 100 and OnDemandBaseCapacity "+
			"not negative")
	case m.OnDemandStrategy != Prioritized && m.OnDemandStrategy != LowestPrice:
		return apiError("ValidationError", "OnDemandAllocationStrategy '%s' is not one of [lowest-price prioritized]",
			m.OnDemandStrategy)
	case !slices.Contains(spot, m.SpotStrategy):
		return apiError("ValidationError", "SpotAllocationStrategy '%s' is not one of %v", m.SpotStrategy, spot)
	case len(m.Overrides) > 40:
		return apiError("ValidationError", "A mixed instances policy has at most 40 overrides, not %d", len(m.Overrides))
	}
	for _, o := range m.Overrides {
		switch {
		case o.Weight < 0 || o.Weight > 999:
			return apiError("ValidationError", "WeightedCapacity must be between 1 and 999")
		case o.InstanceType != "" && o.Requirements != nil:
			return apiError("ValidationError", "An override has either InstanceType or InstanceRequirements")
		}
	}
	return nil
}

// choice is one thing that a group may launch, in any of its zones.
type choice struct {
	instanceType string
	imageID      string
	weight       int
	template     *LaunchTemplate // has no ID for a launch configuration
	data         *TemplateData
	ref          TemplateRef
}

// choices returns, in order, what settings allow the group to launch as a capacity type.
func (s *groupLaunches) choices(want GroupSettings, capacityType string) ([]choice, *APIError) {
	switch l := want.Launch; {
	case l.Configuration != "":
		c := s.configurations[l.Configuration]
		if c == nil {
			return nil, noConfiguration(l.Configuration)
		}
		return []choice{{c.Data.InstanceType, c.Data.ImageID, 1, &LaunchTemplate{}, &c.Data, TemplateRef{}}}, nil
	case l.Mixed != nil:
		return s.mixedChoices(l.Mixed, capacityType)
	default:
		c, failure := s.templateChoice(l.Template)
		return []choice{c}, failure
	}
}

func (s *groupLaunches) templateChoice(ref TemplateRef) (choice, *APIError) {
	t, n, err := s.launcher.templates.number(ref.ID, ref.Name, ref.Version)
	if err != nil {
		return choice{}, apiError("ValidationError", "You must use a valid fully-formed launch template. %s",
			err.(*APIError).Message) //nolint:errorlint,forcetypeassert // the region's own errors are not wrapped
	}
	d := &t.Versions[n-1]
	return choice{d.InstanceType, d.ImageID, 1, t, d, TemplateRef{t.ID, t.Name, strconv.Itoa(n)}}, nil
}

func (s *groupLaunches) mixedChoices(m *MixedInstances, capacityType string) ([]choice, *APIError) {
	overrides := m.Overrides
	if len(overrides) == 0 {
		overrides = []GroupOverride{{}}
	}
	var out []choice
	for _, o := range overrides {
		ref := o.Template
		if ref == (TemplateRef{}) {
			ref = m.Template
		}
		c, failure := s.templateChoice(ref)
		if failure != nil {
			return nil, failure
		}
		c.weight, c.imageID = max(o.Weight, 1), cmp.Or(o.ImageID, c.imageID)
		types := []string{cmp.Or(o.InstanceType, c.instanceType)}
		if o.Requirements != nil {
			if types = s.launcher.market.InstanceTypesMatching(*o.Requirements, s.architecture(c.imageID)); len(types) == 0 {
				return nil, apiError("ValidationError", "The instance requirements match no instance type")
			}
		}
		if o.Requirements != nil {
			types = s.launcher.market.affordable(types, *o.Requirements, capacityType)
		}
		for _, t := range types {
			c.instanceType = t
			out = append(out, c)
		}
	}
	return out, nil
}

// architecture returns an image's architecture; x86_64 if the image does not exist.
func (s *groupLaunches) architecture(image string) string {
	if i := s.launcher.images.image(image); i != nil {
		return i.Architecture
	}
	return "x86_64"
}

// groupOption is a choice in a zone.
type groupOption struct {
	option
	weight int
	ref    TemplateRef
}

// options returns what a group may launch in a zone, best first.
func (s *groupLaunches) options(g *group, choices []choice, zone, capacityType string) []groupOption {
	var subnet *subnet
	for _, id := range g.Subnets {
		sub := s.launcher.network.subnet(id)
		if sub != nil && sub.Zone == zone && (subnet == nil || sub.free() > subnet.free()) {
			subnet = sub
		}
	}
	if subnet == nil {
		return nil
	}
	var plain []option
	byType := map[string]choice{}
	for i, c := range choices {
		x := s.launcher.priced(option{template: c.template, data: c.data, subnet: subnet, o: Override{
			InstanceType: c.instanceType, ImageID: c.imageID, SubnetID: subnet.ID, Zone: zone, Priority: float64(i),
		}}, capacityType)
		limit := s.spotMax(g)
		if _, twice := byType[c.instanceType]; twice || x.offer == nil ||
			(capacityType == Spot && limit > 0 && x.price > limit) {
			continue
		}
		byType[c.instanceType] = c
		plain = append(plain, x)
	}
	order(plain, g.strategy(capacityType))
	out := make([]groupOption, len(plain))
	for i, x := range plain {
		c := byType[x.o.InstanceType]
		out[i] = groupOption{x, c.weight, c.ref}
	}
	return g.spread(out, capacityType)
}

// spread sorts the spot pools of a lowest-price policy least used first.
func (g *group) spread(options []groupOption, capacityType string) []groupOption {
	m := g.Launch.Mixed
	if m == nil || capacityType != Spot || m.SpotStrategy != LowestPrice {
		return options
	}
	used := map[string]int{}
	for _, x := range g.Members {
		if x.CapacityType == Spot && !x.terminating() {
			used[x.Zone+" "+x.Type]++
		}
	}
	first := options[:min(max(m.SpotPools, 1), len(options))]
	slices.SortStableFunc(first, func(a, b groupOption) int {
		return used[a.subnet.Zone+" "+a.o.InstanceType] - used[b.subnet.Zone+" "+b.o.InstanceType]
	})
	return options
}

// strategy returns a group's allocation strategy for a capacity type.
func (g *group) strategy(capacityType string) string {
	switch m := g.Launch.Mixed; {
	case m == nil:
		return Prioritized
	case capacityType == Spot:
		return m.SpotStrategy
	default:
		return m.OnDemandStrategy
	}
}

// spotMax returns the maximum price that a group pays for a spot instance, in micro-dollars per hour; 0 means the
// on-demand price.
func (s *groupLaunches) spotMax(g *group) int64 {
	if c := s.configurations[g.Launch.Configuration]; c != nil {
		return c.SpotMaxMicros
	}
	if m := g.Launch.Mixed; m != nil {
		return m.SpotMaxPriceMicros
	}
	return 0
}

// nextCapacityType returns the capacity type of the group's next instance: on demand until the base and the
// percentage above it are reached, then spot.
func (s *groupLaunches) nextCapacityType(g *group) string {
	m := g.Launch.Mixed
	if m == nil {
		if c := s.configurations[g.Launch.Configuration]; c != nil && c.SpotMaxMicros > 0 {
			return Spot
		}
		return OnDemand
	}
	if onDemand, total := g.capacityOnDemand(); onDemand < m.onDemandOf(total+1) {
		return OnDemand
	}
	return Spot
}

// capacityOnDemand returns the group's on-demand and total capacity.
func (g *group) capacityOnDemand() (onDemand, total int) {
	for _, x := range g.Members {
		if !x.counts() {
			continue
		}
		if total += x.Weight; x.CapacityType == OnDemand {
			onDemand += x.Weight
		}
	}
	return onDemand, total
}

// onDemandOf returns the on-demand part of a total capacity. The percentage is rounded up.
func (m *MixedInstances) onDemandOf(total int) int {
	base := min(total, m.OnDemandBase)
	return base + ((total-base)*m.OnDemandPercentage+99)/100
}
