package awsapi

// The shapes below are EC2's answers (API version 2016-11-15), with the element names its clients parse.

type tagXML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type stateXML struct {
	Code int    `xml:"code" filter:"instance-state-code"`
	Name string `xml:"name" filter:"instance-state-name"`
}

type groupXML struct {
	GroupID   string `xml:"groupId" filter:"group-id"`
	GroupName string `xml:"groupName" filter:"group-name"`
}

type placementXML struct {
	AvailabilityZone   string `xml:"availabilityZone" filter:"availability-zone"`
	AvailabilityZoneID string `xml:"availabilityZoneId" filter:"availability-zone-id"`
	GroupName          string `xml:"groupName"`
	Tenancy            string `xml:"tenancy" filter:"tenancy"`
}

type reasonXML struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type profileRefXML struct {
	ARN string `xml:"arn" filter:"iam-instance-profile.arn"`
	ID  string `xml:"id"`
}

type attachmentXML struct {
	AttachmentID        string `xml:"attachmentId" filter:"attachment-id"`
	InstanceID          string `xml:"instanceId,omitempty" filter:"instance-id"`
	InstanceOwnerID     string `xml:"instanceOwnerId,omitempty"`
	DeviceIndex         int    `xml:"deviceIndex"`
	Status              string `xml:"status" filter:"status"`
	AttachTime          string `xml:"attachTime"`
	DeleteOnTermination bool   `xml:"deleteOnTermination"`
	NetworkCardIndex    int    `xml:"networkCardIndex"`
}

type addressXML struct {
	PrivateIPAddress string `xml:"privateIpAddress" filter:"private-ip-address"`
	PrivateDNSName   string `xml:"privateDnsName"`
	Primary          bool   `xml:"primary"`
}

type interfaceXML struct {
	NetworkInterfaceID string          `xml:"networkInterfaceId" filter:"network-interface-id"`
	SubnetID           string          `xml:"subnetId" filter:"subnet-id"`
	VpcID              string          `xml:"vpcId" filter:"vpc-id"`
	OwnerID            string          `xml:"ownerId" filter:"owner-id"`
	Status             string          `xml:"status" filter:"status"`
	PrivateIPAddress   string          `xml:"privateIpAddress" filter:"private-ip-address"`
	PrivateDNSName     string          `xml:"privateDnsName" filter:"private-dns-name"`
	SourceDestCheck    bool            `xml:"sourceDestCheck"`
	GroupSet           set[groupXML]   `xml:"groupSet" filter:"."`
	Attachment         attachmentXML   `xml:"attachment" filter:"attachment."`
	PrivateIPAddresses set[addressXML] `xml:"privateIpAddressesSet" filter:"addresses."`
	InterfaceType      string          `xml:"interfaceType" filter:"interface-type"`
}

type instanceXML struct {
	InstanceID            string            `xml:"instanceId" filter:"instance-id"`
	ImageID               string            `xml:"imageId" filter:"image-id"`
	State                 stateXML          `xml:"instanceState" filter:"."`
	PrivateDNSName        string            `xml:"privateDnsName" filter:"private-dns-name"`
	DNSName               string            `xml:"dnsName"`
	Reason                string            `xml:"reason"`
	AMILaunchIndex        int               `xml:"amiLaunchIndex"`
	ProductCodes          set[string]       `xml:"productCodes"`
	InstanceType          string            `xml:"instanceType" filter:"instance-type"`
	LaunchTime            string            `xml:"launchTime" filter:"launch-time"`
	Placement             placementXML      `xml:"placement" filter:"."`
	Monitoring            monitoringXML     `xml:"monitoring"`
	SubnetID              string            `xml:"subnetId,omitempty" filter:"subnet-id"`
	VpcID                 string            `xml:"vpcId,omitempty" filter:"vpc-id"`
	PrivateIPAddress      string            `xml:"privateIpAddress,omitempty" filter:"private-ip-address"`
	SourceDestCheck       bool              `xml:"sourceDestCheck"`
	GroupSet              set[groupXML]     `xml:"groupSet" filter:"instance."`
	StateReason           *reasonXML        `xml:"stateReason"`
	Architecture          string            `xml:"architecture" filter:"architecture"`
	RootDeviceType        string            `xml:"rootDeviceType"`
	RootDeviceName        string            `xml:"rootDeviceName"`
	BlockDeviceMapping    set[attachedXML]  `xml:"blockDeviceMapping"`
	VirtualizationType    string            `xml:"virtualizationType"`
	Lifecycle             string            `xml:"instanceLifecycle,omitempty" filter:"instance-lifecycle"`
	SpotInstanceRequestID string            `xml:"spotInstanceRequestId,omitempty" filter:"spot-instance-request-id"`
	ClientToken           string            `xml:"clientToken" filter:"client-token"`
	TagSet                set[tagXML]       `xml:"tagSet" filter:"tag"`
	Hypervisor            string            `xml:"hypervisor"`
	NetworkInterfaces     set[interfaceXML] `xml:"networkInterfaceSet"`
	IAMInstanceProfile    *profileRefXML    `xml:"iamInstanceProfile" filter:"."`
	EBSOptimized          bool              `xml:"ebsOptimized"`
	ENASupport            bool              `xml:"enaSupport"`
	PlatformDetails       string            `xml:"platformDetails"`
}

type attachedXML struct {
	Name string         `xml:"deviceName"`
	EBS  attachedEBSXML `xml:"ebs"`
}

type attachedEBSXML struct {
	VolumeID            string `xml:"volumeId"`
	Status              string `xml:"status"`
	AttachTime          string `xml:"attachTime"`
	DeleteOnTermination bool   `xml:"deleteOnTermination"`
}

type monitoringXML struct {
	State string `xml:"state"`
}

type reservationXML struct {
	ReservationID string           `xml:"reservationId"`
	OwnerID       string           `xml:"ownerId"`
	GroupSet      set[groupXML]    `xml:"groupSet"`
	Instances     set[instanceXML] `xml:"instancesSet"`
}

type stateChangeXML struct {
	InstanceID    string   `xml:"instanceId"`
	CurrentState  stateXML `xml:"currentState"`
	PreviousState stateXML `xml:"previousState"`
}

type overridesXML struct {
	InstanceType     string `xml:"instanceType,omitempty"`
	SubnetID         string `xml:"subnetId,omitempty"`
	AvailabilityZone string `xml:"availabilityZone,omitempty"`
	ImageID          string `xml:"imageId,omitempty"`
	Priority         string `xml:"priority,omitempty"`
}

type templateSpecXML struct {
	ID      string `xml:"launchTemplateId,omitempty"`
	Name    string `xml:"launchTemplateName,omitempty"`
	Version string `xml:"version,omitempty"`
}

type templateAndOverridesXML struct {
	Specification templateSpecXML `xml:"launchTemplateSpecification"`
	Overrides     overridesXML    `xml:"overrides"`
}

type fleetInstanceXML struct {
	TemplateAndOverrides templateAndOverridesXML `xml:"launchTemplateAndOverrides"`
	Lifecycle            string                  `xml:"lifecycle"`
	InstanceIDs          set[string]             `xml:"instanceIds"`
	InstanceType         string                  `xml:"instanceType"`
}

type fleetErrorXML struct {
	TemplateAndOverrides templateAndOverridesXML `xml:"launchTemplateAndOverrides"`
	Lifecycle            string                  `xml:"lifecycle"`
	Code                 string                  `xml:"errorCode"`
	Message              string                  `xml:"errorMessage"`
}

type fleetXML struct {
	FleetID   string                `xml:"fleetId"`
	Errors    set[fleetErrorXML]    `xml:"errorSet"`
	Instances set[fleetInstanceXML] `xml:"fleetInstanceSet"`
}
