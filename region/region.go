// Package region simulates an AWS region: capacity pools that run dry, spot prices that move, interruptions, subnets
// with a finite number of addresses, boot times, throttling and errors.
//
// Open makes a Region. Its methods implement the EC2, SSM, SQS, IAM, EKS, Auto Scaling, ELB and CloudWatch Logs calls
// of the same names; their errors are *APIError values with AWS's codes. Methods without a counterpart in AWS set up
// the region (SetCluster, SetCapacity), disturb it (Interrupt, Impair, Fail, Delay) or observe it (Watch, Calls,
// Summary). Package region/awsapi serves a Region over AWS's wire protocols.
//
// A region is deterministic: the same seed and the same calls at the same times give the same instances, addresses,
// prices and interruptions. It runs on real or virtual time. With a state folder, a change survives a kill of the
// process once the method that made it has returned.
package region

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Config configures a region.
type Config struct {
	Name string // such as us-west-2; must be in the catalogue
	// Offers replaces AWS's instance types in AWS's zones; nil keeps those. Open a state folder with the same offers each
	// time: instances of types that are missing do not boot.
	Offers *catalog.Region
	Dir    string // state folder; "" keeps the state in memory
	Seed   uint64
	Clock  clock.Clock // nil means the real clock
	Boot   BootTime
	// Discovery is the value of the tag karpenter.sh/discovery on subnets and security groups; "" means nodeless.
	Discovery string
	// SubnetBits is the prefix length of each zone's subnet, 16 to 28; 0 means 16 (65,531 addresses).
	SubnetBits int
	// SpotInterruptionsPerHour is the mean rate at which EC2 interrupts a spot instance; 0 leaves it to Interrupt.
	SpotInterruptionsPerHour float64
	// DescribeLag is how long Instances omits a new instance: EC2 is eventually consistent.
	DescribeLag time.Duration
	// Quotas limit what the account may run.
	Quotas Quotas
	// Throttle holds the token buckets of API calls by action; nil means DefaultThrottle.
	Throttle map[string]Bucket
	// Log receives failures of background work; nil discards them.
	Log *slog.Logger
}

// Quotas limit what an account runs at once; 0 means no limit.
type Quotas struct {
	SpotInstances int
	OnDemandVCPUs int
}

// BootTime is the time from a launch until the instance's kubelet starts. Each instance has its own, drawn from its ID:
// Median × exp(Spread × a standard normal variate).
type BootTime struct {
	Median time.Duration
	Spread float64 // 0 means 0.15
}

// Region is one simulated region. It is safe for concurrent use.
//
// It consists of parts, one for each role, whose exported methods are the region's. Each part embeds core, which has
// the one lock of the region. An exported method locks and commits. An unexported method expects the lock to be held
// and leaves the commit to its caller, so that a call is one transaction however many parts it crosses.
type Region struct {
	*core
	*tokens         // Created, RememberCreated
	*admission      // Admit, Calls, Counters; Fail, Delay, SetKeyEnabled
	*market         // Zones, Offers, Type, SpotPrice, SpotPools; Capacity, SetCapacity
	*network        // Subnets; CreateSubnetCIDRReservation, DeleteSubnetCIDRReservation, SubnetCIDRReservations
	*interfaces     // NetworkInterfaces and the calls that change them
	*podAddresses   // SetCNI; AssignPodIP, ReleasePodIP, PodAddresses; AttachTrunk, AssignBranch
	*securityGroups // SecurityGroups, ClusterSecurityGroup and the calls that change groups and their rules
	*images         // Images; Parameter, Parameters of SSM
	*templates      // CreateLaunchTemplate, DeleteLaunchTemplate, LaunchTemplate, LaunchTemplates
	*instances      // Instance, Instances, TerminateInstances, Summary, Watch; Interrupt, Rebalance, Impair
	*launcher       // CreateFleet, RunInstances
	*queues         // SQS: Queue, QueueDepth, SendMessage, ReceiveMessage, PollMessages, DeleteMessage
	*profiles       // IAM: Role, InstanceProfile, InstanceProfiles and the calls that change them
	*principals     // IAM and STS: users, roles, their policies and keys
	*cluster        // EKS: Cluster, Clusters; SetCluster
	*logs           // CloudWatch Logs: LogGroups, LogStreams, LogEvents, PutLogEvents and the calls that change them
	*tagger         // CreateTags, DeleteTags
	*loadBalancing  // ELBv2: load balancers, listeners, rules
	*targetGroups   // ELBv2: target groups, targets and their health
	*nodegroups     // EKS: managed node groups
	*groupRecords   // EC2 Auto Scaling: AutoScalingGroups, ScalingActivities
	*autoScaling    // CreateAutoScalingGroup and the calls that change a group
	*groupLaunches  // launch configurations
	*groupHooks     // lifecycle hooks
	*groupMembers   // TerminateInstanceInAutoScalingGroup and the calls about instances of groups; instance refreshes

	*capacityReservations // CapacityReservations and the calls that change them; AddCapacityBlock
	*placementGroups      // PlacementGroups, CreatePlacementGroup, DeletePlacementGroup
	*zonalShifts          // ARC: ZonalShifts, StartZonalShift, CancelZonalShift
}

// Open opens a region and resumes from its state folder: an instance that was booting still boots at its time.
func Open(c Config) (*Region, error) {
	offers, err := c.complete()
	if err != nil {
		return nil, err
	}
	s, err := openStore(c.Dir, c.Name)
	if err != nil {
		return nil, err
	}
	r := assemble(c, offers, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.restore(); err != nil {
		_ = s.close()
		return nil, err
	}
	return r, nil
}

// complete checks the configuration, fills in its defaults and returns what the region offers.
func (c *Config) complete() (*catalog.Region, error) {
	offers := catalog.Of(c.Name)
	if offers == nil {
		return nil, fmt.Errorf("region %q: not in the catalogue; there are %v", c.Name, catalog.Regions())
	}
	if c.Offers != nil {
		offers = c.Offers
	}
	if c.SubnetBits == 0 {
		c.SubnetBits = 16
	}
	switch {
	case c.SubnetBits < 16 || c.SubnetBits > 28:
		return nil, fmt.Errorf("region %s: subnets of /%d; a VPC takes /16 to /28", c.Name, c.SubnetBits)
	case c.Boot.Median < 0 || c.Boot.Spread < 0 || math.IsNaN(c.Boot.Spread):
		return nil, fmt.Errorf("region %s: negative boot time", c.Name)
	case c.SpotInterruptionsPerHour < 0 || math.IsNaN(c.SpotInterruptionsPerHour) || c.DescribeLag < 0 ||
		c.Quotas.SpotInstances < 0 || c.Quotas.OnDemandVCPUs < 0:
		return nil, fmt.Errorf("region %s: interruptions per hour, describe lag and quotas must not be negative", c.Name)
	}
	if c.Clock == nil {
		c.Clock = clock.Real{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Discovery == "" {
		c.Discovery = "nodeless"
	}
	if c.Throttle == nil {
		c.Throttle = DefaultThrottle
	}
	return offers, nil
}

// assemble connects the parts of a region.
func assemble(config Config, offers *catalog.Region, s *store) *Region {
	c := newCore(config, s)
	r := &Region{
		core: c, tokens: newTokens(c), admission: newAdmission(c), market: newMarket(c, offers),
		images: newImages(c), profiles: newProfiles(c), logs: newLogs(c),
	}
	r.templates = newTemplates(r.tokens)
	r.principals = newPrincipals(c, r.profiles)
	r.network = newNetwork(c, offers.Zones())
	r.queues = newQueues(c)
	r.cluster = newCluster(c, r.queues)
	r.securityGroups = newSecurityGroups(c, r.cluster)
	r.instances = newInstances(c, r.market, r.network, r.queues)
	r.interfaces = newInterfaces(r.tokens, r.market, r.network, r.instances)
	r.interfaces.groups, r.securityGroups.interfaces = r.securityGroups, r.interfaces
	r.podAddresses = newPodAddresses(c, r.market, r.interfaces, r.instances)
	r.capacityReservations = newCapacityReservations(r.tokens, r.market, r.instances)
	r.instances.reserved = r.capacityReservations
	r.placementGroups = newPlacementGroups(c, r.market, r.instances)
	r.launcher = newLauncher(r.tokens, r.admission, r.market, r.network, r.images, r.templates, r.instances,
		r.placementGroups, r.profiles, r.securityGroups)
	r.zonalShifts = newZonalShifts(c, r.market)
	r.tagger = newTagger(c, r.instances, r.ownTags)
	r.loadBalancing = newLoadBalancing(c, r.network, r.securityGroups, r.instances)
	r.targetGroups, r.securityGroups.balancing = r.loadBalancing.groups, r.loadBalancing
	r.autoScaling = newAutoScaling(r.launcher, r.queues)
	r.groupRecords, r.groupLaunches, r.groupHooks = r.autoScaling.groupRecords, r.autoScaling.launches, r.autoScaling.hooks
	r.groupMembers = &groupMembers{r.autoScaling}
	r.nodegroups = newNodegroups(r.cluster, r.autoScaling, r.images)
	return r
}

// Close stops the region. Its state stays in the folder.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.instances.stopTimers()
	r.capacityReservations.stopTimers()
	r.autoScaling.stopTimers()
	return r.store.close()
}

// Name returns the region's name, such as us-west-2.
func (r *Region) Name() string { return r.config.Name }

// Now returns the region's time.
func (r *Region) Now() time.Time { return r.clock.Now() }

// AccountID is the account that owns everything in the region.
const AccountID = "123456789012"

// APIError is an error with the code that AWS clients check.
type APIError struct {
	Code       string
	Message    string
	HTTPStatus int // of an injected error; 0 means the code's usual status
}

// Error returns "Code: Message".
func (e *APIError) Error() string { return e.Code + ": " + e.Message }

func apiError(code, format string, args ...any) *APIError {
	return &APIError{Code: code, Message: fmt.Sprintf(format, args...)}
}
