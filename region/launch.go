package region

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// launcher starts instances, for CreateFleet and RunInstances.
type launcher struct {
	*core
	admission *admission
	market    *market
	network   *network
	images    *images
	templates *templates
	instances *instances
	groups    *placementGroups

	tokens      map[string]*token // by kind of call and client token
	tokensSwept time.Time
}

func newLauncher(
	c *core, a *admission, m *market, n *network, images *images, t *templates, i *instances,
	g *placementGroups,
) *launcher {
	return &launcher{
		core: c, admission: a, market: m, network: n, images: images, templates: t, instances: i, groups: g,
		tokens: map[string]*token{},
	}
}

// tokenLife is how long a client token is remembered.
const tokenLife = 48 * time.Hour

// token is the result of a call that had a client token.
type token struct {
	Digest string // of the request's parameters
	At     time.Time
	Fleet  *FleetResult
	Run    []string
}

// token returns the result of an earlier call with a client token, or a new, empty result.
func (l *launcher) token(kind, clientToken string, q any) (t *token, known bool, err error) {
	data, err := json.Marshal(q)
	if err != nil {
		return nil, false, apiError("InvalidParameterValue", "%v", err)
	}
	l.forgetTokens()
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:16])
	t, known = l.tokens[kind+clientToken]
	switch {
	case !known || clientToken == "":
		return &token{Digest: digest, At: l.clock.Now()}, false, nil
	case t.Digest != digest:
		return nil, false, apiError("IdempotentParameterMismatch",
			"The client token '%s' was used before with other parameters", clientToken)
	}
	return t, true, nil
}

// forgetTokens drops expired tokens, at most once an hour.
func (l *launcher) forgetTokens() {
	if now := l.clock.Now(); now.Sub(l.tokensSwept) > time.Hour {
		l.tokensSwept = now
		for key, t := range l.tokens {
			if now.Sub(t.At) > tokenLife {
				delete(l.tokens, key)
				l.store.remove(bucketTokens, key)
			}
		}
	}
}

// remember saves the result of a call with a client token.
func (l *launcher) remember(kind, clientToken string, t *token) {
	if clientToken != "" {
		l.tokens[kind+clientToken] = t
		l.store.put(bucketTokens, kind+clientToken, t)
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
	ip, ok := l.network.takeAddress(x.subnet)
	if !ok {
		return "", noAddresses(x.subnet.ID, " to satisfy the requested number of instances")
	}
	id, now, image := "i-"+l.newID(), l.clock.Now(), l.images.image(x.o.ImageID)
	boot := l.bootTime(id)
	i := Instance{
		ID: id, Type: x.o.InstanceType, ImageID: x.o.ImageID, Architecture: image.Architecture, Windows: image.Windows,
		Zone: x.subnet.Zone, ZoneID: x.subnet.ZoneID, SubnetID: x.subnet.ID, PrivateIP: ip,
		PrivateDNS: l.network.privateDNS(ip), CapacityType: from.capacityType,
		State: Pending, LaunchedAt: now, RunningAt: now.Add(min(toRunning, boot)), BootAt: now.Add(boot),
		TemplateID: x.template.ID, TemplateName: x.template.Name, UserData: x.data.UserData, Monitoring: x.data.Monitoring,
		NodeDiskGiB:    l.images.nodeDisk(x.o.ImageID, x.data.Devices),
		Devices:        l.images.devices(id, x.o.ImageID, x.data.Devices),
		SecurityGroups: x.data.SecurityGroupIDs, InstanceProfile: x.data.InstanceProfile,
		Tags: merged(x.data.Tags["instance"], from.tags), ClientToken: from.clientToken, FleetID: from.fleet,
		PriceMicros: x.price, Reservation: x.data.Reservation, PlacementGroupID: group, Partition: partition,
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
	l.instances.interfaces.tagFirst(id, x.data.Tags["network-interface"])
	return id, nil
}

// check returns the capacity reservation that an option launches into, if any, or the reason why it cannot launch. It
// does not check addresses.
func (l *launcher) check(x option, capacityType string) (*capacityReservation, *APIError) {
	switch {
	case x.offer == nil:
		return nil, apiError("Unsupported", "Your requested instance type (%s) is not supported in your requested "+
			"Availability Zone (%s).", x.o.InstanceType, x.subnet.Zone)
	case capacityType == Spot && len(x.offer.Spot) == 0:
		return nil, apiError("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration: "+
			"%s is not sold as spot in %s.", x.o.InstanceType, x.subnet.Zone)
	case !l.images.fits(x.o.ImageID, x.offer.Type):
		return nil, apiError("InvalidParameterValue", "The architecture of the image %s does not match that of the "+
			"instance type %s.", x.o.ImageID, x.o.InstanceType)
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
