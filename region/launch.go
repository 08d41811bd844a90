package region

import (
	"math"
	"strings"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// launcher starts instances, for CreateFleet and RunInstances.
type launcher struct {
	*core
	tokens    *tokens
	admission *admission
	market    *market
	network   *network
	images    *images
	templates *templates
	instances *instances
	groups    *placementGroups
	profiles  *profiles
	security  *securityGroups
}

func newLauncher(
	k *tokens, a *admission, m *market, n *network, images *images, t *templates, i *instances,
	g *placementGroups, p *profiles, s *securityGroups,
) *launcher {
	return &launcher{
		core: k.core, tokens: k, admission: a, market: m, network: n, images: images, templates: t, instances: i, groups: g,
		profiles: p, security: s,
	}
}

// option is an override with the objects that it names.
type option struct {
	o        Override
	template *LaunchTemplate
	data     *TemplateData
	subnet   *subnet
	offer    *catalog.Offer // nil where the zone does not offer the type
	price    int64
	free     int
}

// priced fills in the offer, price and free capacity of an option.
func (l *launcher) priced(x option, capacityType string) option {
	if x.offer = l.market.offerIn(x.o.InstanceType, x.subnet.Zone); x.offer != nil {
		x.price = l.market.price(x.offer, x.subnet.Zone, capacityType)
		x.free = l.market.free(Pool{x.o.InstanceType, x.subnet.Zone, capacityType})
	}
	return x
}

func noImage(id string) *APIError {
	return apiError("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
}

func noCapacity(instanceType, zone string) *APIError {
	return apiError("InsufficientInstanceCapacity",
		"We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", instanceType, zone)
}

func noAddresses(subnet, purpose string) *APIError {
	return apiError("InsufficientFreeAddressesInSubnet",
		"There are not enough free addresses in subnet '%s'%s.", subnet, purpose)
}

// origin is the call that launches an instance.
type origin struct {
	capacityType string
	tags         map[string]string
	clientToken  string
	fleet        string // ID; "" for RunInstances
}

// launch starts one instance and returns its ID. Its subnet and its pool or reservation must have room.
func (l *launcher) launch(x option, from origin) (string, *APIError) {
	reserved, err := l.check(x, from.capacityType)
	if err != nil {
		return "", err
	}
	group, partition, err := l.groups.place(x.data.Placement, x.o.InstanceType, x.subnet.Zone)
	if err != nil {
		return "", err
	}
	own, groups, err := l.networkOf(x)
	if err != nil {
		return "", err
	}
	ip, ok := own.PrivateIP, true
	if own.ID == "" {
		ip, ok = l.network.takeAddress(x.subnet)
	}
	if !ok {
		return "", noAddresses(x.subnet.ID, " to satisfy the requested number of instances")
	}
	id, now, image := "i-"+l.newID(), l.clock.Now(), l.images.image(x.o.ImageID)
	boot := l.bootTime(id)
	i := Instance{
		ID: id, Type: x.o.InstanceType, ImageID: x.o.ImageID, Architecture: image.Architecture, Windows: image.Windows,
		Zone: x.subnet.Zone, ZoneID: x.subnet.ZoneID, SubnetID: x.subnet.ID, PrivateIP: ip,
		InterfaceID: own.ID,
		PrivateDNS:  l.network.privateDNS(ip), CapacityType: from.capacityType,
		State: Pending, LaunchedAt: now, RunningAt: now.Add(min(toRunning, boot)), BootAt: now.Add(boot),
		TemplateID: x.template.ID, TemplateName: x.template.Name, UserData: x.data.UserData, Monitoring: x.data.Monitoring,
		NodeDiskGiB:    l.images.nodeDisk(x.o.ImageID, x.data.Devices),
		Devices:        l.images.devices(id, x.o.ImageID, x.data.Devices),
		SecurityGroups: groups, InstanceProfile: x.data.InstanceProfile,
		Tags: merged(x.data.Tags["instance"], from.tags), ClientToken: from.clientToken, FleetID: from.fleet,
		PriceMicros: x.price, Reservation: x.data.Reservation, PlacementGroupID: group, Partition: partition,
		Dedicated: x.data.Tenancy == "dedicated",
	}
	if reserved != nil {
		i.ReservationID = reserved.ID
	}
	i.CannotStart = !l.admission.usable(i.Devices)
	if i.CapacityType == Spot {
		i.SpotRequestID = "sir-" + l.newID()[:8]
		i.NoticeAt = l.noticeTime(id, now)
	}
	l.instances.add(i)
	if own.ID != "" {
		l.instances.interfaces.attachFirst(own, id)
	}
	l.instances.interfaces.tagFirst(id, x.data.Tags["network-interface"])
	return id, nil
}

// networkOf returns the existing interface that becomes the primary one of an option's instance, which has no ID if a
// new one does, and the security groups of the instance.
func (l *launcher) networkOf(x option) (own *NetworkInterface, groups []string, err *APIError) {
	if x.data.InterfaceID == "" {
		groups, err = l.security.resolve(x.data.SecurityGroupIDs)
		return &NetworkInterface{}, groups, err
	}
	own, err = l.instances.interfaces.forLaunch(x.data.InterfaceID, x.subnet.ID)
	if err != nil {
		return nil, nil, err
	}
	return own, own.SecurityGroups, nil
}

// checkData returns an error if no instance of an image can have what the data says.
func (l *launcher) checkData(d *TemplateData, image string) *APIError {
	_, unknown := l.security.resolve(d.SecurityGroupIDs)
	switch {
	case d.Unserved != "":
		return apiError("InvalidParameterValue", "The simulated region does not serve %s of launches: leave it out.",
			d.Unserved)
	case unknown != nil:
		return unknown
	case d.InstanceProfile != "" && l.profiles.byName[d.InstanceProfile] == nil &&
		!strings.HasPrefix(d.InstanceProfile, managedProfile):
		return apiError("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM "+
			"Instance Profile name", d.InstanceProfile)
	}
	return l.images.checkDevices(image, d.Devices)
}

// check returns the capacity reservation that an option launches into, if any, or the reason why it cannot launch. It
// does not check addresses.
func (l *launcher) check(x option, capacityType string) (*capacityReservation, *APIError) {
	if err := l.checkOption(x, capacityType); err != nil {
		return nil, err
	}
	r, err := l.instances.reserved.forLaunch(x.data.Reservation, x.o.InstanceType, x.subnet.Zone, capacityType)
	switch {
	case r != nil || err != nil:
		return r, err
	case l.market.free(Pool{x.o.InstanceType, x.subnet.Zone, capacityType}) <= 0:
		return nil, noCapacity(x.o.InstanceType, x.subnet.Zone)
	}
	return nil, l.market.overQuota(x.offer.Type, capacityType)
}

// checkOption returns the reason why an option cannot launch even with capacity to spare. Dry runs find it too.
func (l *launcher) checkOption(x option, capacityType string) *APIError {
	switch {
	case x.offer == nil:
		return apiError("Unsupported", "Your requested instance type (%s) is not supported in your requested "+
			"Availability Zone (%s).", x.o.InstanceType, x.subnet.Zone)
	case capacityType == Spot && len(x.offer.Spot) == 0:
		return apiError("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration: "+
			"%s is not sold as spot in %s.", x.o.InstanceType, x.subnet.Zone)
	case !l.images.fits(x.o.ImageID, x.offer.Type):
		return apiError("InvalidParameterValue", "The architecture of the image %s does not match that of the "+
			"instance type %s.", x.o.ImageID, x.o.InstanceType)
	case capacityType == Spot && x.data.SpotMaxMicros > 0 && x.data.SpotMaxMicros < x.price:
		return apiError("SpotMaxPriceTooLow", "Your Spot request price of %g is lower than the minimum required Spot "+
			"request fulfillment price of %g.", float64(x.data.SpotMaxMicros)/1e6, float64(x.price)/1e6)
	}
	if _, _, err := l.networkOf(x); err != nil {
		return err
	}
	return l.checkData(x.data, x.o.ImageID)
}

// bootTime returns the time from an instance's launch until its kubelet starts.
func (l *launcher) bootTime(id string) time.Duration {
	spread := l.config.Boot.Spread
	if spread == 0 {
		spread = 0.15
	}
	return time.Duration(float64(l.config.Boot.Median) * math.Exp(spread*l.normal("boot", id)))
}

// noticeTime returns when EC2 announces a spot interruption: after an exponential time drawn from the instance's ID.
func (l *launcher) noticeTime(id string, launched time.Time) time.Time {
	if l.config.SpotInterruptionsPerHour <= 0 {
		return time.Time{}
	}
	hours := -math.Log(1-l.chance("interrupt", id)) / l.config.SpotInterruptionsPerHour
	return launched.Add(time.Duration(min(hours, 24*365) * float64(time.Hour)))
}
