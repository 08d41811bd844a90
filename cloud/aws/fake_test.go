package aws

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// fakeAccount is an AWS account in memory, below the SDK's clients and above the wire, for tests of single AWS
// responses. Package wiretest speaks the real protocol.
type fakeAccount struct {
	mu        sync.Mutex
	calls     []string
	fail      map[string][]error // by operation: the errors of the next calls
	empty     map[model.OfferingKey]bool
	full      map[string]bool // subnets without addresses
	fleets    map[string]fleetRecord
	templates map[string]*ec2types.RequestLaunchTemplateData
	created   map[string]time.Time // templates that are not old, by name
	instances []*ec2types.Instance
	hidden    bool   // DescribeInstances lags behind
	protected string // ID of the instance with termination protection
	profiles  map[string]*iamtypes.InstanceProfile
	roles     map[string]bool
	messages  []sqstypes.Message
	stuck     string // receipt of a message that cannot be deleted
	reserved  []*ec2types.CapacityReservation
	unstarted []ec2types.CreateFleetError // the errors of the next fleet, which starts nothing
	cluster   *ekstypes.Cluster           // nil = EKS does not know it
	blockOnly string                      // a type that EC2 sells only as capacity blocks
	// parameters of SSM by name, besides those of AL2023's images for any version
	parameters map[string]string
}

type fleetRecord struct {
	params string
	out    *ec2.CreateFleetOutput
}

func newAccount() *fakeAccount {
	return &fakeAccount{
		fail: map[string][]error{}, empty: map[model.OfferingKey]bool{}, full: map[string]bool{},
		fleets: map[string]fleetRecord{}, created: map[string]time.Time{},
		templates: map[string]*ec2types.RequestLaunchTemplateData{}, profiles: map[string]*iamtypes.InstanceProfile{},
		roles: map[string]bool{"node-role": true},
	}
}

func (a *fakeAccount) config() awssdk.Config {
	answer := func(ctx context.Context, in middleware.InitializeInput,
		_ middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		out, err := a.answer(ctx, in.Parameters)
		return middleware.InitializeOutput{Result: out}, middleware.Metadata{}, err
	}
	return awssdk.Config{
		Region: "us-west-2",
		APIOptions: []func(*middleware.Stack) error{func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("fakeAccount", answer), middleware.After)
		}},
	}
}

func apiError(code, message string) error {
	return &smithy.GenericAPIError{Code: code, Message: message}
}

// count returns how often an operation was called.
func (a *fakeAccount) count(operation string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, c := range a.calls {
		if c == operation {
			n++
		}
	}
	return n
}

func (a *fakeAccount) answer(ctx context.Context, in any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	operation := strings.TrimSuffix(strings.Split(fmt.Sprintf("%T", in), ".")[1], "Input")
	a.calls = append(a.calls, operation)
	if next := a.fail[operation]; len(next) > 0 {
		a.fail[operation] = next[1:]
		if next[0] != nil {
			return nil, next[0]
		}
	}
	switch in := in.(type) {
	case *ec2.DescribeInstanceTypesInput:
		types := typeList()
		for i := range types {
			if string(types[i].InstanceType) == a.blockOnly {
				types[i].SupportedUsageClasses = []ec2types.UsageClassType{ec2types.UsageClassTypeCapacityBlock}
			}
		}
		return &ec2.DescribeInstanceTypesOutput{InstanceTypes: types}, nil
	case *ec2.DescribeInstanceTypeOfferingsInput:
		return offeringList(), nil
	case *ec2.DescribeSpotPriceHistoryInput:
		return spotList(), nil
	case *pricing.GetProductsInput:
		return priceList(), nil
	case *ec2.DescribeSubnetsInput:
		return &ec2.DescribeSubnetsOutput{Subnets: slices.DeleteFunc(subnetList(), func(s ec2types.Subnet) bool {
			return !matchAll(in.Filters, map[string]string{"subnet-id": *s.SubnetId}, s.Tags)
		})}, nil
	case *ec2.DescribeSecurityGroupsInput:
		groups := []ec2types.SecurityGroup{{
			GroupId: awssdk.String("sg-1"), GroupName: awssdk.String("nodes"),
			Tags: discovery(),
		}}
		return &ec2.DescribeSecurityGroupsOutput{SecurityGroups: slices.DeleteFunc(groups,
			func(g ec2types.SecurityGroup) bool {
				return !matchAll(in.Filters, map[string]string{"group-id": *g.GroupId, "group-name": *g.GroupName}, g.Tags)
			})}, nil
	case *ec2.DescribeImagesInput:
		return &ec2.DescribeImagesOutput{Images: slices.DeleteFunc(imageList(), func(i ec2types.Image) bool {
			other := len(in.Owners) > 0 && i.OwnerId != nil && !slices.Contains(in.Owners, *i.OwnerId)
			fields := map[string]string{"image-id": *i.ImageId, "name": *i.Name, "state": "available"}
			return other || !matchAll(in.Filters, fields, i.Tags)
		})}, nil
	case *ssm.GetParameterInput:
		if id := a.parameters[*in.Name]; id != "" {
			return &ssm.GetParameterOutput{Parameter: &ssmtypes.Parameter{Value: &id}}, nil
		}
		for part, id := range map[string]string{
			"/x86_64/standard/": "ami-x86", "/arm64/standard/": "ami-arm",
			"/x86_64/nvidia/": "ami-gpu",
		} {
			if strings.Contains(*in.Name, part+"recommended/") {
				return &ssm.GetParameterOutput{Parameter: &ssmtypes.Parameter{Value: awssdk.String(id)}}, nil
			}
		}
		return nil, &ssmtypes.ParameterNotFound{}
	case *ec2.CreateLaunchTemplateInput:
		if a.templates[*in.LaunchTemplateName] != nil {
			return nil, apiError("InvalidLaunchTemplateName.AlreadyExistsException", "exists")
		}
		a.templates[*in.LaunchTemplateName] = in.LaunchTemplateData
		return &ec2.CreateLaunchTemplateOutput{}, nil
	case *ec2.DescribeLaunchTemplatesInput:
		out := &ec2.DescribeLaunchTemplatesOutput{}
		for name := range a.templates {
			out.LaunchTemplates = append(out.LaunchTemplates, ec2types.LaunchTemplate{
				LaunchTemplateId: awssdk.String(name), LaunchTemplateName: awssdk.String(name),
				CreateTime: new(a.created[name]),
			})
		}
		return out, nil
	case *ec2.DeleteLaunchTemplateInput:
		delete(a.templates, *in.LaunchTemplateId)
		return &ec2.DeleteLaunchTemplateOutput{}, nil
	case *ec2.DescribeCapacityReservationsInput:
		return a.describeReservations(in)
	case *ec2.DescribePlacementGroupsInput:
		return nil, apiError("InvalidPlacementGroup.Unknown", "the account has none")
	case *ec2.CreateFleetInput:
		return a.createFleet(in)
	case *ec2.DescribeInstancesInput:
		return a.describeInstances(in)
	case *ec2.TerminateInstancesInput:
		return a.terminate(in)
	}
	return a.answerOthers(in)
}

func (a *fakeAccount) answerOthers(in any) (any, error) {
	missing := &iamtypes.NoSuchEntityException{}
	switch in := in.(type) {
	case *eks.DescribeClusterInput:
		if a.cluster == nil {
			return nil, &ekstypes.ResourceNotFoundException{Message: awssdk.String("No cluster found for name: " + *in.Name)}
		}
		return &eks.DescribeClusterOutput{Cluster: a.cluster}, nil
	case *iam.GetInstanceProfileInput:
		if p := a.profiles[*in.InstanceProfileName]; p != nil {
			return &iam.GetInstanceProfileOutput{InstanceProfile: p}, nil
		}
		return nil, missing
	case *iam.CreateInstanceProfileInput:
		a.profiles[*in.InstanceProfileName] = &iamtypes.InstanceProfile{
			InstanceProfileName: in.InstanceProfileName,
			Tags:                in.Tags,
		}
		return &iam.CreateInstanceProfileOutput{}, nil
	case *iam.AddRoleToInstanceProfileInput:
		if !a.roles[*in.RoleName] {
			return nil, missing
		}
		p := a.profiles[*in.InstanceProfileName]
		p.Roles = append(p.Roles, iamtypes.Role{RoleName: in.RoleName})
		return &iam.AddRoleToInstanceProfileOutput{}, nil
	case *iam.RemoveRoleFromInstanceProfileInput:
		a.profiles[*in.InstanceProfileName].Roles = nil
		return &iam.RemoveRoleFromInstanceProfileOutput{}, nil
	case *iam.DeleteInstanceProfileInput:
		delete(a.profiles, *in.InstanceProfileName)
		return &iam.DeleteInstanceProfileOutput{}, nil
	case *sqs.GetQueueUrlInput:
		return &sqs.GetQueueUrlOutput{QueueUrl: awssdk.String("https://queue")}, nil
	case *sqs.ReceiveMessageInput:
		return &sqs.ReceiveMessageOutput{Messages: slices.Clone(a.messages)}, nil
	case *sqs.DeleteMessageBatchInput:
		out := &sqs.DeleteMessageBatchOutput{}
		for _, e := range in.Entries {
			if *e.ReceiptHandle == a.stuck {
				out.Failed = append(out.Failed,
					sqstypes.BatchResultErrorEntry{
						Id: e.Id, Code: awssdk.String("InternalError"),
						Message: awssdk.String("try again"),
					})
				continue
			}
			a.messages = slices.DeleteFunc(a.messages,
				func(m sqstypes.Message) bool { return *m.ReceiptHandle == *e.ReceiptHandle })
		}
		return out, nil
	}
	return nil, apiError("InvalidAction", fmt.Sprintf("%T", in))
}

func (a *fakeAccount) createFleet(in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
	params, _ := json.Marshal(in)
	if f, used := a.fleets[*in.ClientToken]; used {
		if f.params != string(params) {
			return nil, apiError(codeTokenMismatch, "the token was used with other parameters")
		}
		return f.out, nil
	}
	if errs := a.unstarted; len(errs) > 0 {
		a.unstarted = nil
		out := &ec2.CreateFleetOutput{Errors: errs}
		a.fleets[*in.ClientToken] = fleetRecord{string(params), out}
		return out, nil
	}
	kind := string(in.TargetCapacitySpecification.DefaultTargetCapacityType)
	out := &ec2.CreateFleetOutput{}
	best, cost := (*ec2types.LaunchTemplateAndOverridesResponse)(nil), 0.0
	refuse := func(code string, o ec2types.FleetLaunchTemplateOverridesRequest) {
		out.Errors = append(out.Errors,
			ec2types.CreateFleetError{
				ErrorCode: awssdk.String(code),
				LaunchTemplateAndOverrides: &ec2types.LaunchTemplateAndOverridesResponse{
					Overrides: &ec2types.FleetLaunchTemplateOverrides{
						InstanceType:     o.InstanceType,
						AvailabilityZone: o.AvailabilityZone, SubnetId: o.SubnetId,
					},
				},
			})
	}
	for _, c := range in.LaunchTemplateConfigs {
		data := a.templates[*c.LaunchTemplateSpecification.LaunchTemplateName]
		for _, o := range c.Overrides {
			switch {
			case data == nil:
				refuse("InvalidLaunchTemplateName.NotFoundException", o)
			case a.reservationRefuses(data, o) != "":
				refuse(a.reservationRefuses(data, o), o)
			case a.empty[model.OfferingKey{Type: string(o.InstanceType), Zone: *o.AvailabilityZone, CapacityType: kind}]:
				refuse("InsufficientInstanceCapacity", o)
			case a.full[*o.SubnetId]:
				refuse(codeNoAddresses, o)
			default:
				price := fakeTypes[string(o.InstanceType)].price
				if o.Priority != nil {
					price = *o.Priority // lower is better
				}
				if best == nil || price < cost {
					cost = price
					best = &ec2types.LaunchTemplateAndOverridesResponse{Overrides: &ec2types.FleetLaunchTemplateOverrides{
						InstanceType: o.InstanceType, AvailabilityZone: o.AvailabilityZone, SubnetId: o.SubnetId, ImageId: data.ImageId,
					}}
				}
			}
		}
	}
	if best != nil {
		i := a.start(in, best.Overrides, kind)
		a.runReserved(i, a.templates[*in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName])
		out.Instances = []ec2types.CreateFleetInstance{{
			InstanceIds:  []string{*i.InstanceId},
			InstanceType: i.InstanceType, LaunchTemplateAndOverrides: best,
		}}
	}
	a.fleets[*in.ClientToken] = fleetRecord{string(params), out}
	return out, nil
}

func (a *fakeAccount) start(in *ec2.CreateFleetInput, o *ec2types.FleetLaunchTemplateOverrides,
	kind string,
) *ec2types.Instance {
	i := &ec2types.Instance{
		InstanceId: awssdk.String(fmt.Sprintf("i-%017x", len(a.instances)+1)), InstanceType: o.InstanceType,
		ImageId: o.ImageId, SubnetId: o.SubnetId,
		Placement: &ec2types.Placement{AvailabilityZone: o.AvailabilityZone},
		State:     &ec2types.InstanceState{Name: ec2types.InstanceStateNamePending},
		Tags:      in.TagSpecifications[0].Tags, SecurityGroups: []ec2types.GroupIdentifier{{GroupId: awssdk.String("sg-1")}},
	}
	if kind == model.Spot {
		i.InstanceLifecycle = ec2types.InstanceLifecycleTypeSpot
	}
	a.instances = append(a.instances, i)
	return i
}

func (a *fakeAccount) describeInstances(in *ec2.DescribeInstancesInput) (*ec2.DescribeInstancesOutput, error) {
	out := &ec2.DescribeInstancesOutput{}
	known := map[string]bool{}
	for _, i := range a.instances {
		known[*i.InstanceId] = true
		if a.hidden || (len(in.InstanceIds) > 0 && !slices.Contains(in.InstanceIds, *i.InstanceId)) ||
			!matchAll(in.Filters, map[string]string{"instance-state-name": string(i.State.Name)}, i.Tags) {
			continue
		}
		out.Reservations = append(out.Reservations, ec2types.Reservation{Instances: []ec2types.Instance{*i}})
	}
	for _, id := range in.InstanceIds {
		if !known[id] {
			return nil, apiError(codeInstanceMissing, id)
		}
	}
	return out, nil
}

func (a *fakeAccount) terminate(in *ec2.TerminateInstancesInput) (*ec2.TerminateInstancesOutput, error) {
	if slices.Contains(in.InstanceIds, a.protected) {
		return nil, apiError("OperationNotPermitted", "modify its 'disableApiTermination' instance attribute")
	}
	out := &ec2.TerminateInstancesOutput{}
	for _, id := range in.InstanceIds {
		n := slices.IndexFunc(a.instances, func(i *ec2types.Instance) bool { return *i.InstanceId == id })
		if n < 0 {
			return nil, apiError(codeInstanceMissing, id)
		}
		if i := a.instances[n]; i.State.Name != ec2types.InstanceStateNameTerminated {
			i.State = &ec2types.InstanceState{Name: ec2types.InstanceStateNameShuttingDown}
		}
		out.TerminatingInstances = append(out.TerminatingInstances,
			ec2types.InstanceStateChange{InstanceId: awssdk.String(id), CurrentState: a.instances[n].State})
	}
	return out, nil
}

// matchAll applies EC2's filters to fields and tags.
func matchAll(filters []ec2types.Filter, fields map[string]string, tags []ec2types.Tag) bool {
	for _, f := range filters {
		hit := false
		for _, t := range tags {
			hit = hit || (*f.Name == "tag-key" && slices.Contains(f.Values, *t.Key)) ||
				(*f.Name == "tag:"+*t.Key && slices.Contains(f.Values, *t.Value))
		}
		if v, ok := fields[*f.Name]; ok {
			hit = slices.Contains(f.Values, v)
		}
		if !hit {
			return false
		}
	}
	return true
}

func discovery() []ec2types.Tag {
	return []ec2types.Tag{{Key: awssdk.String("karpenter.sh/discovery"), Value: awssdk.String("demo")}}
}

var fakeTypes = map[string]struct {
	cpu, mib, enis, ips int
	arm                 bool
	gpus                int
	price               float64
}{
	"c7i.2xlarge": {8, 16384, 4, 15, false, 0, 0.357},
	"t3.medium":   {2, 4096, 3, 6, false, 0, 0.0416},
	"m5.large":    {2, 8192, 3, 10, false, 0, 0.096},
	"r7g.xlarge":  {4, 32768, 4, 15, true, 0, 0.2142},
	"m7g.large":   {2, 8192, 3, 10, true, 0, 0.0816},
	"g5.xlarge":   {4, 16384, 4, 15, false, 1, 1.006},
	"m5.metal":    {96, 393216, 15, 50, false, 0, 4.608},
}

func typeList() []ec2types.InstanceTypeInfo {
	var out []ec2types.InstanceTypeInfo
	for _, name := range sortedKeys(fakeTypes) {
		f := fakeTypes[name]
		t := ec2types.InstanceTypeInfo{
			InstanceType: ec2types.InstanceType(name), Hypervisor: ec2types.InstanceTypeHypervisorNitro,
			SupportedUsageClasses: []ec2types.UsageClassType{"on-demand", "spot"},
			VCpuInfo:              &ec2types.VCpuInfo{DefaultVCpus: awssdk.Int32(int32(f.cpu))},
			MemoryInfo:            &ec2types.MemoryInfo{SizeInMiB: awssdk.Int64(int64(f.mib))},
			ProcessorInfo: &ec2types.ProcessorInfo{
				Manufacturer:             awssdk.String("Intel"),
				SustainedClockSpeedInGhz: awssdk.Float64(3.2),
				SupportedArchitectures: []ec2types.ArchitectureType{map[bool]ec2types.ArchitectureType{
					true:  "arm64",
					false: "x86_64",
				}[f.arm]},
			},
			NetworkInfo: &ec2types.NetworkInfo{
				Ipv4AddressesPerInterface: awssdk.Int32(int32(f.ips)), DefaultNetworkCardIndex: awssdk.Int32(0),
				NetworkCards: []ec2types.NetworkCardInfo{{
					MaximumNetworkInterfaces: awssdk.Int32(int32(f.enis)),
					BaselineBandwidthInGbps:  awssdk.Float64(0.75),
				}},
			},
		}
		if f.gpus > 0 {
			t.GpuInfo = &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
				Name:         awssdk.String("A10G"),
				Manufacturer: awssdk.String("NVIDIA"),
				Count:        awssdk.Int32(int32(f.gpus)),
				MemoryInfo:   &ec2types.GpuDeviceMemoryInfo{SizeInMiB: awssdk.Int32(22888)},
			}}}
		}
		out = append(out, t)
	}
	return out
}

var fakeZones = []string{"us-west-2a", "us-west-2b", "us-west-2c"}

func offeringList() *ec2.DescribeInstanceTypeOfferingsOutput {
	out := &ec2.DescribeInstanceTypeOfferingsOutput{}
	for _, name := range sortedKeys(fakeTypes) {
		for _, z := range fakeZones {
			out.InstanceTypeOfferings = append(out.InstanceTypeOfferings,
				ec2types.InstanceTypeOffering{InstanceType: ec2types.InstanceType(name), Location: awssdk.String(z)})
		}
	}
	return out
}

// spotList returns spot prices of 0.3 of on-demand, except for t3.medium in zone c, where spot costs more than
// on-demand.
func spotList() *ec2.DescribeSpotPriceHistoryOutput {
	out := &ec2.DescribeSpotPriceHistoryOutput{}
	for _, name := range sortedKeys(fakeTypes) {
		for _, z := range fakeZones {
			price := fakeTypes[name].price * 0.3
			if name == "t3.medium" && z == "us-west-2c" {
				price = 0.05
			}
			out.SpotPriceHistory = append(out.SpotPriceHistory, ec2types.SpotPrice{
				InstanceType:     ec2types.InstanceType(name),
				AvailabilityZone: awssdk.String(z), SpotPrice: awssdk.String(fmt.Sprint(price)),
				Timestamp: awssdk.Time(time.Unix(1, 0)),
			})
		}
	}
	return out
}

func priceList() *pricing.GetProductsOutput {
	out := &pricing.GetProductsOutput{}
	for _, name := range sortedKeys(fakeTypes) {
		out.PriceList = append(out.PriceList,
			fmt.Sprintf(`{"product":{"attributes":{"instanceType":%q}},"terms":{"OnDemand":{"x":{"priceDimensions":{"y":{"pricePerUnit":{"USD":"%v"}}}}}}}`,
				name, fakeTypes[name].price))
	}
	return out
}

func subnetList() []ec2types.Subnet {
	subnet := func(id, zone, zoneID string, free int32) ec2types.Subnet {
		return ec2types.Subnet{
			SubnetId: &id, AvailabilityZone: &zone, AvailabilityZoneId: &zoneID,
			AvailableIpAddressCount: &free, Tags: discovery(),
		}
	}
	return []ec2types.Subnet{
		subnet("subnet-a1", "us-west-2a", "usw2-az1", 100), subnet("subnet-a2", "us-west-2a", "usw2-az1", 4000),
		subnet("subnet-b1", "us-west-2b", "usw2-az2", 4000), subnet("subnet-c1", "us-west-2c", "usw2-az3", 4000),
	}
}

func imageList() []ec2types.Image {
	image := func(id, created string, arch ec2types.ArchitectureValues) ec2types.Image {
		return ec2types.Image{ImageId: &id, Name: awssdk.String("image " + id), Architecture: arch, CreationDate: &created}
	}
	shared := image("ami-shared", "2026-01-01T00:00:00.000Z", "x86_64") // by another account
	shared.OwnerId, shared.Tags = awssdk.String("210987654321"), discovery()
	return []ec2types.Image{
		image("ami-x86", "2026-01-01T00:00:00.000Z", "x86_64"), image("ami-arm", "2026-01-01T00:00:00.000Z", "arm64"),
		image("ami-gpu", "2026-01-01T00:00:00.000Z", "x86_64"), image("ami-old", "2020-01-01T00:00:00.000Z", "x86_64"),
		shared,
	}
}

// newClass returns a class that selects all resources.
func newClass(name string) *ec2v1.EC2NodeClass {
	c := &ec2v1.EC2NodeClass{}
	c.Name = name
	tags := map[string]string{"karpenter.sh/discovery": "demo"}
	c.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{Tags: tags}}
	c.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{Tags: tags}}
	c.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
	c.Spec.Role = "node-role"
	return c
}

// connect returns a provider for an account, with classes by name.
func connect(t *testing.T, cfg awssdk.Config, classes map[string]*ec2v1.EC2NodeClass,
	change ...func(*Options),
) *Provider {
	t.Helper()
	o := Options{
		AWS: cfg, ClusterName: "demo", ClusterEndpoint: "https://cluster", ClusterCA: []byte("CA"), ClusterDNS: "10.100.0.10",
		ServiceCIDR: "10.100.0.0/16", KubernetesVersion: "1.36",
		Classes: func(ref cloud.ClassRef) *ec2v1.EC2NodeClass { return classes[ref.Name] },
	}
	for _, f := range change {
		f(&o)
	}
	p, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stage returns an account, a provider and a resolved class "default".
func stage(t *testing.T, change ...func(*Options)) (*fakeAccount, *Provider, *ec2v1.EC2NodeClass) {
	t.Helper()
	a, class := newAccount(), newClass("default")
	p := connect(t, a.config(), map[string]*ec2v1.EC2NodeClass{"default": class}, change...)
	resolve(t, p, class)
	return a, p, class
}

func resolve(t *testing.T, p *Provider, class *ec2v1.EC2NodeClass) {
	t.Helper()
	if err := p.Resolve(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if r := class.StatusConditions().Root(); !r.IsTrue() {
		t.Fatalf("class is not ready: %s", r.Message)
	}
}

var classRef = cloud.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}

func requestFor(claim string, rs ...model.Requirement) cloud.LaunchRequest {
	var r model.Resources
	r[model.CPU], r[model.Pods] = 1000, 1
	return cloud.LaunchRequest{
		Token: "uid-" + claim, Claim: claim, Pool: "general", Class: classRef,
		Requirements: model.NewRequirements(rs...), Requests: r,
	}
}

func decode(t *testing.T, text *string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
