// Package region is a simulated AWS region: capacity pools that run dry, spot prices that move, interruptions, subnets
// with finite addresses, boot times, throttling and errors. It is deterministic from a seed, runs on real or virtual
// time and keeps its state in a folder. region/awsapi speaks AWS's wire protocols for it.
//
// Methods carry the semantics of the EC2, SSM, SQS, IAM and EKS calls whose names they bear; their errors are *APIError with
// AWS's codes. Whatever a method changed is on disk (survives a kill of the process) before it returns.
package region

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Config of a region.
type Config struct {
	Name string // such as us-west-2; must be in the catalogue
	// Offers is what the region offers instead of AWS's types in AWS's zones; nil = those. A region keeps to what it was
	// opened with first: machines of types that are gone would not boot.
	Offers *catalog.Region
	Dir    string // state folder; "" keeps the state in memory
	Seed   uint64
	Clock  clock.Clock // nil = the real one
	Boot   BootTime
	// Discovery is the value of tag karpenter.sh/discovery on subnets and security groups; "" = nodeless.
	Discovery string
	// SubnetBits is the size of each zone's subnet as a prefix length, 16 to 28; 0 = 18 (16,379 addresses).
	SubnetBits int
	// SpotInterruptionsPerHour is how often EC2 takes back a spot instance by itself, on average; 0 = only by Interrupt.
	SpotInterruptionsPerHour float64
	// DescribeLag is how long a new instance is unknown to Instances, as EC2's eventual consistency has it; 0 = known at once.
	DescribeLag time.Duration
	// Quotas bound what the account may run.
	Quotas Quotas
	// Throttle are the token buckets of API calls; nil = DefaultThrottle.
	Throttle map[string]Bucket
	// Log receives what happens in the background; nil = dropped.
	Log *slog.Logger
}

// Quotas are what AWS lets an account run at once; 0 = no limit.
type Quotas struct {
	SpotInstances int
	OnDemandVCPUs int
}

// BootTime is the time from a launch to the moment the machine's kubelet comes up. A machine's own time is drawn from its
// id: Median × exp(Spread × a normal variate), so that a restart changes nothing.
type BootTime struct {
	Median time.Duration
	Spread float64 // 0 = 0.15
}

// Region is one simulated region. It is safe for concurrent use.
type Region struct {
	c     Config
	log   *slog.Logger
	clock clock.Clock
	goods *catalog.Region
	store *store

	mu          sync.Mutex
	closed      bool
	instances   map[string]*Instance
	order       []string          // instance ids by time of launch
	tokens      map[string]*token // fleets and runs by client token
	templates   map[string]*LaunchTemplate
	subnets     []*Subnet
	groups      []*SecurityGroup
	rules       map[string][]SecurityGroupRule // that were added, by security group
	images      []*Image
	tags        map[string]map[string]string // of resources other than instances, by id
	addresses   map[string]*addresses        // by subnet id
	podIPs      map[string]PodAddress        // by pod UID
	pods        map[string]map[string]bool   // UIDs of pods with an address, by instance id
	userData    map[string][]byte            // by hash
	pools       map[Pool]int                 // machines running, by pool
	sizes       map[Pool]int                 // sizes that were set, by pool
	queues      map[string]*queue
	profiles    map[string]*InstanceProfile
	cluster     ClusterInfo
	faults      map[string]*fault
	buckets     map[string]*bucketState
	calls       callLog
	watchers    []*watcher
	timers      map[string]clock.Timer // the next step of each instance
	sequence    uint64
	tokensSwept time.Time
}

// Open opens the region and goes on where its folder stopped: machines that were booting boot at their time.
func Open(c Config) (*Region, error) {
	goods := catalog.Of(c.Name)
	if goods == nil {
		return nil, fmt.Errorf("region %q: not in the catalogue; there are %v", c.Name, catalog.Regions())
	}
	if c.Offers != nil {
		goods = c.Offers
	}
	if c.SubnetBits == 0 {
		c.SubnetBits = 18
	}
	if c.SubnetBits < 16 || c.SubnetBits > 28 {
		return nil, fmt.Errorf("region %s: subnets of /%d; a VPC takes /16 to /28", c.Name, c.SubnetBits)
	}
	if c.Boot.Median < 0 || c.Boot.Spread < 0 || math.IsNaN(c.Boot.Spread) {
		return nil, fmt.Errorf("region %s: negative boot time", c.Name)
	}
	if c.SpotInterruptionsPerHour < 0 || math.IsNaN(c.SpotInterruptionsPerHour) || c.DescribeLag < 0 || c.Quotas.SpotInstances < 0 || c.Quotas.OnDemandVCPUs < 0 {
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
	r := &Region{
		c: c, log: c.Log, clock: c.Clock, goods: goods,
		instances: map[string]*Instance{}, tokens: map[string]*token{}, templates: map[string]*LaunchTemplate{},
		tags: map[string]map[string]string{}, addresses: map[string]*addresses{}, podIPs: map[string]PodAddress{}, pods: map[string]map[string]bool{}, userData: map[string][]byte{},
		pools: map[Pool]int{}, sizes: map[Pool]int{}, queues: map[string]*queue{}, profiles: map[string]*InstanceProfile{},
		faults: map[string]*fault{}, buckets: map[string]*bucketState{}, rules: map[string][]SecurityGroupRule{}, timers: map[string]clock.Timer{},
	}
	r.furnish()
	var err error
	if r.store, err = openStore(c.Dir, c.Name); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.restore(); err != nil {
		_ = r.store.close()
		return nil, err
	}
	return r, nil
}

// Close stops the region. Its state stays in the folder.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	for _, t := range r.timers {
		t.Stop()
	}
	return r.store.close()
}

// Name is the region's name, such as us-west-2.
func (r *Region) Name() string { return r.c.Name }

// Zones are the region's availability zones.
func (r *Region) Zones() []catalog.Zone { return r.goods.Zones() }

// Offers are the types the region offers, by name.
func (r *Region) Offers() []*catalog.Offer { return r.goods.Offers() }

// Type finds a type by name, also one that the region does not offer but AWS does elsewhere; nil if there is none.
func (r *Region) Type(name string) *catalog.Type {
	if o, ok := r.goods.Offer(name); ok {
		return o.Type
	}
	if t, ok := catalog.Lookup(name); ok && r.c.Offers == nil {
		return t
	}
	return nil
}

// Now is the region's time.
func (r *Region) Now() time.Time { return r.clock.Now() }

// AccountID owns everything in the region.
const AccountID = "123456789012"

// APIError is an error with the code an AWS client looks at.
type APIError struct {
	Code       string
	Message    string
	HTTPStatus int // 0 = 400
}

// Error is "Code: Message".
func (e *APIError) Error() string { return e.Code + ": " + e.Message }

func apiError(code, format string, args ...any) *APIError {
	return &APIError{Code: code, Message: fmt.Sprintf(format, args...), HTTPStatus: 400}
}
