package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// classCatalog holds the instance types that a class allows. Only version ever changes.
type classCatalog struct {
	version     string // of the object for which it was last found valid; "" = compare fingerprints each time
	fingerprint string // of the parts of the class on which it depends
	generation  int    // of the offers
	types       []model.InstanceType
	index       map[string]int // type name → index into types
	labels      map[string]map[string]string
	typeKeys    map[string]bool        // labels that types determine, even if only some types have them
	images      map[string]int         // type name → index into the class's images
	zoneIDs     map[string]string      // zone → zone id
	side        map[string]model.Price // what a node costs in addition to its instance, by zone
	placement   placementGroup         // of all instances
	tenancies   bool                   // a launch chooses the tenancy; otherwise it is in labels
}

// Catalog returns the instance types that a class allows, by name.
func (p *Provider) Catalog(ctx context.Context, ref cloud.ClassRef) (_ []model.InstanceType, err error) {
	defer p.called("Catalog", p.now(), &err)
	class, err := p.readyClass(ref)
	if err != nil {
		return nil, err
	}
	c, err := p.catalogs.of(ctx, class)
	if err != nil {
		return nil, err
	}
	return c.types, nil
}

// catalogs keeps the catalogue of each class.
type catalogs struct {
	*account
	market  *market
	subnets *subnetTracker
	groups  *placementGroups

	mu     sync.Mutex
	byName map[string]*classCatalog // by cloudName
}

func newCatalogs(a *account, m *market, subnets *subnetTracker, groups *placementGroups) *catalogs {
	return &catalogs{account: a, market: m, subnets: subnets, groups: groups, byName: map[string]*classCatalog{}}
}

func (s *catalogs) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}

// of returns the catalogue of a class: the same one as before unless something on which it depends has changed.
func (s *catalogs) of(ctx context.Context, class *ec2v1.EC2NodeClass) (*classCatalog, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	offers, err := s.market.offers(ctx)
	if err != nil {
		return nil, fmt.Errorf("catalog of %s: %w", title(class), err)
	}
	group, err := s.groups.of(ctx, class)
	if err != nil {
		return nil, err
	}
	public := s.subnets.public(class.Status.Subnets)
	version := ""
	if class.ResourceVersion != "" {
		version = fmt.Sprint(class.UID, class.ResourceVersion, public, s.reservedENIs(), group)
	}
	name := cloudName(class)
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.byName[name]
	if have != nil && have.generation == offers.generation && version != "" && have.version == version {
		return have, nil
	}
	if problems := validate(class); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s: %w", title(class), strings.Join(problems, "; "), cloud.ErrClassNotReady)
	}
	print := fmt.Sprint(fingerprint(class, public), s.reservedENIs(), group)
	if have == nil || have.generation != offers.generation || have.fingerprint != print {
		fresh := s.assemble(class, offers, public, group)
		if have != nil && reflect.DeepEqual(fresh.types, have.types) {
			// The change does not affect this class: callers keep the slice that they know.
			fresh.types = have.types
		}
		fresh.fingerprint, fresh.generation = print, offers.generation
		have = fresh
		s.byName[name] = have
	}
	have.version = version
	return have, nil
}

// fingerprint returns everything in a class on which its catalogue depends.
func fingerprint(class *ec2v1.EC2NodeClass, public map[string]bool) string {
	text, err := json.Marshal([]any{
		class.Spec.Kubelet, class.Spec.BlockDeviceMappings, class.Spec.InstanceStorePolicy, class.Spec.NetworkInterfaces,
		class.AMIFamily(), groupCapacity(class), class.Status.Subnets, class.Status.AMIs,
		class.Spec.AssociatePublicIPAddress, public, reservedZones(class), podNetworkOf(class) != nil,
	})
	if err != nil { // these types always have a JSON form
		return ""
	}
	return string(text)
}

// assemble returns the catalogue of a class. public says which subnets give each instance a public address; placed is
// the placement group of its instances.
func (a *account) assemble(class *ec2v1.EC2NodeClass, g *offers, public map[string]bool,
	placed placementGroup,
) *classCatalog {
	c := &classCatalog{
		types: make([]model.InstanceType, 0, len(g.types)), index: make(map[string]int, len(g.types)),
		labels: make(map[string]map[string]string, len(g.types)), images: make(map[string]int, len(g.types)),
		typeKeys: maps.Clone(typeKeys), zoneIDs: map[string]string{}, placement: placed,
	}
	auto, group := isAuto(class), NodeGroupOf(class)
	c.tenancies = !auto && group == nil
	if auto {
		c.typeKeys = autoKeys()
	}
	if placed.partitions > 0 { // the launch chooses the partition
		delete(c.typeKeys, ec2v1.LabelPlacementGroupPartition)
	}
	var zones []string
	for _, s := range class.Status.Subnets {
		zones = append(zones, s.Zone)
		c.zoneIDs[s.Zone] = s.ZoneID
	}
	slices.Sort(zones)
	zones = slices.Compact(zones)
	sizes, images, reserved := a.sizingOf(class), imageRequirements(class), reservedZones(class)
	c.side = sidePrices(class, a.o.AWS.Region, public)
	for i := range g.types {
		t := &g.types[i]
		name := string(t.InstanceType)
		offerings := offeredAs(group, g.offerings(a.o.AWS.Region, t, zones, c.side))
		if len(offerings)+len(reserved[name]) == 0 || arch(t) == "" || auto && !autoSupports(t) || !placed.takes(t) {
			continue
		}
		labels := a.nodeLabels(t, class.AMIFamily())
		if labels == nil {
			continue
		}
		maps.Copy(labels, placed.labels(0))
		rs := typeRequirements(labels, offerings, reserved[name], c.zoneIDs)
		image := slices.IndexFunc(images, func(want model.Requirements) bool { return rs.Conflict(want, nil) == "" })
		if image < 0 {
			continue
		}
		if auto { // image requirements use Karpenter's labels
			labels = autoLabels(labels)
			rs = typeRequirements(labels, offerings, reserved[name], c.zoneIDs)
		}
		rs = c.noteLabels(labels, rs)
		capacity, allocatable := sizes.resources(t)
		c.index[name], c.labels[name], c.images[name] = len(c.types), labels, image
		c.types = append(c.types, model.InstanceType{
			Name: name, Requirements: rs, Offerings: offerings,
			Capacity: capacity, Allocatable: allocatable, AttachLimits: sizes.attachLimits(t),
		})
	}
	if group != nil {
		shareSmallest(c.types)
	}
	return c
}

// noteLabels notes which labels types determine. It returns the requirements of a type: those of its labels, and both
// tenancies if the launch chooses.
func (c *classCatalog) noteLabels(labels map[string]string, rs model.Requirements) model.Requirements {
	for key := range labels {
		c.typeKeys[key] = true
	}
	if c.tenancies {
		rs = eitherTenancy(rs, labels)
	}
	return rs
}

// offerings returns the zones and capacity types of a type, by zone, then capacity type. Spot without a known price
// gets the on-demand price. side is what a node costs in addition to its instance, by zone.
func (g *offers) offerings(region string, t *ec2types.InstanceTypeInfo, zones []string,
	side map[string]model.Price,
) []model.Offering {
	name := string(t.InstanceType)
	price, priced := g.onDemandPrice(region, name)
	onDemand := priced && supports(t, ec2types.UsageClassTypeOnDemand)
	spot := supports(t, ec2types.UsageClassTypeSpot)
	var out []model.Offering
	add := func(zone, capacityType string, instance model.Price) {
		out = append(out, model.Offering{
			Zone: zone, CapacityType: capacityType, Price: instance + side[zone], SidePrice: side[zone], Available: true,
		})
	}
	for _, zone := range zones {
		if !g.zones[name][zone] {
			continue
		}
		if onDemand {
			add(zone, model.OnDemand, price)
		}
		spotPrice, known := g.spot[spotKey{name, zone}]
		if !known {
			spotPrice, known = price, priced
		}
		if spot && known {
			add(zone, model.Spot, spotPrice)
		}
	}
	return out
}

// supports reports whether EC2 sells a type with a usage class; on-demand is the default.
func supports(t *ec2types.InstanceTypeInfo, usage ec2types.UsageClassType) bool {
	if len(t.SupportedUsageClasses) == 0 {
		return usage == ec2types.UsageClassTypeOnDemand
	}
	return slices.Contains(t.SupportedUsageClasses, usage)
}

// imageRequirements returns the requirements of each of the class's images on an instance; the best image is first.
func imageRequirements(class *ec2v1.EC2NodeClass) []model.Requirements {
	out := make([]model.Requirements, len(class.Status.AMIs))
	for i, image := range class.Status.AMIs {
		var rs []model.Requirement
		for _, r := range image.Requirements {
			one, err := model.NewRequirement(r.Key, model.Operator(r.Operator), r.Values...)
			if err != nil { // the status has another author; the image then fits nothing
				one = model.OneOf(model.LabelInstanceType, "")
			}
			rs = append(rs, one)
		}
		out[i] = model.NewRequirements(rs...)
	}
	return out
}

const ebsDriver = "ebs.csi.aws.com"

// attachLimits returns how many volumes pods on an instance of the type can have: EC2's limit, less the instance's
// own disks and, if interfaces count against the same limit, less the second interface, which the VPC CNI keeps warm
// from the start. The EBS CSI driver counts in the same way when it starts; from then on its number on the Node
// applies. nil if EC2 does not report a limit.
func (s sizing) attachLimits(t *ec2types.InstanceTypeInfo) []model.AttachLimit {
	e := t.EbsInfo
	if e == nil || e.MaximumEbsAttachments == nil {
		return nil
	}
	most := int64(*e.MaximumEbsAttachments) - int64(s.disks)
	if e.AttachmentLimitType != ec2types.AttachmentLimitTypeDedicated {
		most--
	}
	return []model.AttachLimit{{Driver: ebsDriver, Max: max(most, 0)}}
}
