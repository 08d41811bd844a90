// Package aws is the cloud provider for Amazon EC2, on aws-sdk-go-v2.
//
// Resolve turns an EC2NodeClass into subnets, security groups, images and an instance profile; Catalog lists the
// instance types that it allows; Launch starts one instance with one CreateFleet call; every instance carries tags that
// identify it. The only call on the hot path of a launch is CreateFleet: everything else comes from caches.
//
// Facts about EC2 and about Karpenter's contract: github.com/aws/karpenter-provider-aws/pkg/providers,
// docs.aws.amazon.com/AWSEC2/latest/APIReference.
package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// How long data from AWS stays valid (github.com/aws/karpenter-provider-aws/pkg/cache; spot prices are read more
// often than there, since they change and the call is cheap).
const (
	typesAge              = 12 * time.Hour
	onDemandAge           = 12 * time.Hour
	spotAge               = 10 * time.Minute
	subnetAge             = time.Minute
	reservationAge        = time.Minute
	profileAge            = 15 * time.Minute
	parameterAge          = 5 * time.Minute
	versionAge            = 5 * time.Minute  // of Kubernetes (there pkg/controllers/providers/version)
	launchResultAge       = time.Hour        // how long the outcome of a token is kept
	settleAfter           = 10 * time.Second // how long a launched instance may be missing from EC2's lists
	priceWait             = 2 * time.Second  // how long the first catalog waits for prices before it uses the static ones
	defaultMemoryOverhead = 0.075            // VM_MEMORY_OVERHEAD_PERCENT of Karpenter
)

// Options configures a Provider: its account, region and cluster.
type Options struct {
	AWS             awssdk.Config // Region must be set
	ClusterName     string
	ClusterEndpoint string // URL of the API server as nodes reach it
	ClusterCA       []byte // PEM
	ClusterDNS      string // address that nodes give to pods; "" = the node's own default
	ServiceCIDR     string // range of the cluster's Services; "" = EKS is asked once a class needs it
	// KubernetesVersion is major.minor, such as "1.36"; it selects the image of an alias. See FollowVersion.
	KubernetesVersion string
	// VMMemoryOverheadPercent is the fraction of a type's memory that the hypervisor keeps; nil = 0.075.
	VMMemoryOverheadPercent *float64
	// ReservedENIs is the number of interfaces of an instance that pods cannot use.
	ReservedENIs int
	// IsolatedVPC means that the price list cannot be reached, so that the built-in one is used.
	IsolatedVPC bool
	// ClusterARN is the EKS cluster whose zonal shifts are followed; "" = none are.
	ClusterARN string
	// InterruptionQueue is the name of the SQS queue that EventBridge feeds; "" = no notices.
	InterruptionQueue string
	// IgnoreReservations means that classes select no capacity reservations, whatever their terms say: instances use
	// open ones as EC2 does. It is the opposite of Karpenter's feature gate ReservedCapacity.
	IgnoreReservations bool
	// RepairPolicies are the conditions of Nodes for which instances are replaced; nil = DefaultRepairPolicies.
	RepairPolicies []cloud.RepairPolicy
	// Classes reads from the cluster's cache, and returns nil if there is no such class. The object is never modified.
	// One that represents a class of another kind has that kind in its TypeMeta.
	Classes func(cloud.ClassRef) *ec2v1.EC2NodeClass
	// TypeLabels returns labels of a type's instances that EC2 does not know; they override EC2's own. nil = none.
	TypeLabels func(instanceType string) map[string]string
	Clock      clock.Clock  // nil = real time
	Log        *slog.Logger // nil = discarded
}

// Provider implements cloud.Provider and all optional interfaces. It is safe for concurrent use. Its parts embed the
// account; each guards its own state.
type Provider struct {
	*account
	*notices     // Interruptions, Done
	*zonalShifts // ShiftedZones
	market       *market
	catalogs     *catalogs
	network      *networkResolver
	images       *imageResolver
	profiles     *profiles
	subnets      *subnetTracker
	templates    *templateCache
	launches     *launchStates
	instances    *instances
	groups       *groups

	reservations *reservations
	placements   *placementGroups
}

// account holds what all parts of a provider share: the options and the clients of the services.
type account struct {
	o        Options
	ctx      context.Context // ends background refreshes
	log      *slog.Logger
	observer cloud.Observer         // nil = none
	custom   atomic.Int32           // interfaces that custom networking withholds from pods
	services atomic.Pointer[string] // ServiceCIDR as EKS has it; nil = EKS was not asked

	ec2         *ec2.Client
	ssm         *ssm.Client
	iam         *iam.Client
	sqs         *sqs.Client
	pricing     *pricing.Client
	autoscaling *autoscaling.Client
}

var (
	_ cloud.Provider     = (*Provider)(nil)
	_ cloud.Interrupter  = (*Provider)(nil)
	_ cloud.PodNetworker = (*Provider)(nil)

	_ cloud.VersionFollower = (*Provider)(nil)
)

// cached is a value and the time at which it was read.
type cached[T any] struct {
	value T
	at    time.Time
}

// New returns a provider for one cluster. It makes no calls; background refreshes end with ctx.
func New(ctx context.Context, o Options) (*Provider, error) {
	switch {
	case o.AWS.Region == "":
		return nil, errors.New("aws provider: no region; set AWS_REGION or --region")
	case o.ClusterName == "":
		return nil, errors.New("aws provider: no cluster name; instances are found again by it, set --cluster-name")
	case o.KubernetesVersion == "":
		return nil, errors.New("aws provider: no Kubernetes version; image aliases need it")
	case o.Classes == nil:
		return nil, errors.New("aws provider: no source of node classes")
	case o.VMMemoryOverheadPercent != nil && !(*o.VMMemoryOverheadPercent >= 0 && *o.VMMemoryOverheadPercent < 1):
		return nil, fmt.Errorf("aws provider: VM memory overhead %v is not a fraction between 0 and 1",
			*o.VMMemoryOverheadPercent)
	}
	if o.VMMemoryOverheadPercent == nil {
		o.VMMemoryOverheadPercent = awssdk.Float64(defaultMemoryOverhead)
	}
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &account{
		o: o, ctx: ctx, log: o.Log,
		ec2: ec2.NewFromConfig(o.AWS), ssm: ssm.NewFromConfig(o.AWS), iam: iam.NewFromConfig(o.AWS),
		sqs: sqs.NewFromConfig(o.AWS), autoscaling: autoscaling.NewFromConfig(o.AWS),
		// The price list is served from few regions; its answers cover all of them.
		pricing: pricing.NewFromConfig(o.AWS, func(c *pricing.Options) { c.Region = pricingRegion(o.AWS.Region) }),
	}
	return newProvider(a), nil
}

// newProvider connects the parts of a provider.
func newProvider(a *account) *Provider {
	p := &Provider{
		account: a, notices: &notices{account: a}, market: newMarket(a), images: newImageResolver(a),
		profiles: newProfiles(a), subnets: newSubnetTracker(a), templates: newTemplateCache(a),
		launches: newLaunchStates(a.o.Clock), instances: newInstances(a),
	}
	p.placements = newPlacementGroups(a)
	p.catalogs = newCatalogs(a, p.market, p.subnets, p.placements)
	p.groups = newGroups(a, p.subnets, p.instances)
	p.network = &networkResolver{account: a, subnets: p.subnets}
	p.reservations = newReservations(a)
	p.zonalShifts = newZonalShifts(a, p.subnets)
	return p
}

const providerName = "aws"

// Name returns "aws".
func (p *Provider) Name() string { return providerName }

// ReserveENIs sets how many interfaces of each node custom networking withholds from pods. Options.ReservedENIs
// counts the same ones.
func (a *account) ReserveENIs(n int) { a.custom.Store(int32(n)) }

// reservedENIs returns how many interfaces of each node pods cannot use.
func (a *account) reservedENIs() int { return max(a.o.ReservedENIs, int(a.custom.Load())) }

func (a *account) now() time.Time { return a.o.Clock.Now() }

// ClassHash returns the value of the annotation karpenter.k8s.aws/ec2nodeclass-hash, which changes when existing
// instances no longer match the class. It is Karpenter's hash, which also covers the certificates in user data. It is
// "" for an invalid class.
func (p *Provider) ClassHash(class *ec2v1.EC2NodeClass) string {
	return ClassHash(class, base64.StdEncoding.EncodeToString(p.o.ClusterCA))
}

// ClassHash returns the hash of a class and of the cluster's certificates, in the form that user data has. Two specs
// of a class can be compared without the certificates.
func ClassHash(class *ec2v1.EC2NodeClass, certificates string) string {
	if len(validateImages(class)) > 0 {
		return ""
	}
	if podNetworkOf(class) != nil { // its nodes keep the network that they were launched with
		certificates += class.Annotations[podNetworkKey]
	}
	return class.Hash(&certificates)
}

// HashKeys returns the annotations of a class and of its NodeClaims that hold its ClassHash and the hash's version.
func HashKeys(class *ec2v1.EC2NodeClass) (hash, version string) {
	if kindOf(class) == ownKind {
		return ec2v1.AnnotationEC2NodeClassHash, ec2v1.AnnotationEC2NodeClassHashVersion
	}
	return classLabel(class) + "-hash", classLabel(class) + "-hash-version"
}

// readyClass returns the class of a reference, resolved as it is now; it must not be modified.
func (a *account) readyClass(ref cloud.ClassRef) (*ec2v1.EC2NodeClass, error) {
	class := a.o.Classes(ref)
	if class == nil {
		return nil, fmt.Errorf("%s %q does not exist; create it or correct nodeClassRef.name: %w", ref.Kind, ref.Name,
			cloud.ErrClassNotReady)
	}
	if class.DeletionTimestamp != nil {
		return nil, fmt.Errorf("%s is being deleted: %w", title(class), cloud.ErrClassNotReady)
	}
	// Do not call StatusConditions(), which would add missing conditions to the shared object.
	for _, c := range class.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		if c.Status == "Unknown" {
			break
		}
		if c.Status != "True" {
			return nil, fmt.Errorf("%s: %s: %w", title(class), c.Message, cloud.ErrClassNotReady)
		}
		if c.ObservedGeneration != 0 && c.ObservedGeneration < class.Generation { // the status of an earlier spec
			break
		}
		if len(class.Status.Subnets) == 0 || len(class.Status.AMIs) == 0 {
			break
		}
		return class, nil
	}
	return nil, fmt.Errorf("%s: %w: %w", title(class), cloud.ErrClassUnresolved, cloud.ErrClassNotReady)
}

var _ cloud.Observed = (*Provider)(nil)

// Observe reports calls, batches and user data to the observer from now on.
func (p *Provider) Observe(o cloud.Observer) {
	p.observer = o
	p.instances.get.sent = func(waited time.Duration, size int) { o.Batch("describe_instances", waited, size) }
	p.instances.terminate.sent = func(waited time.Duration, size int) { o.Batch("terminate_instances", waited, size) }
}

// called reports a call that began at start; it is deferred.
func (a *account) called(method string, start time.Time, err *error) {
	if a.observer != nil {
		a.observer.Call(providerName, method, a.now().Sub(start), *err)
	}
}
