package awsapi

// The shapes below are EC2's answers (API version 2016-11-15), with the element names its clients parse.

type tagXML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type stateXML struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type groupXML struct {
	GroupID   string `xml:"groupId"`
	GroupName string `xml:"groupName"`
}

type placementXML struct {
	AvailabilityZone   string `xml:"availabilityZone"`
	AvailabilityZoneID string `xml:"availabilityZoneId"`
	GroupName          string `xml:"groupName"`
	Tenancy            string `xml:"tenancy"`
}

type reasonXML struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type profileRefXML struct {
	ARN string `xml:"arn"`
	ID  string `xml:"id"`
}

type attachmentXML struct {
	AttachmentID        string `xml:"attachmentId"`
	InstanceID          string `xml:"instanceId,omitempty"`
	InstanceOwnerID     string `xml:"instanceOwnerId,omitempty"`
	DeviceIndex         int    `xml:"deviceIndex"`
	Status              string `xml:"status"`
	AttachTime          string `xml:"attachTime"`
	DeleteOnTermination bool   `xml:"deleteOnTermination"`
	NetworkCardIndex    int    `xml:"networkCardIndex"`
}

type addressXML struct {
	PrivateIPAddress string `xml:"privateIpAddress"`
	PrivateDNSName   string `xml:"privateDnsName"`
	Primary          bool   `xml:"primary"`
}

type interfaceXML struct {
	NetworkInterfaceID string          `xml:"networkInterfaceId"`
	SubnetID           string          `xml:"subnetId"`
	VpcID              string          `xml:"vpcId"`
	OwnerID            string          `xml:"ownerId"`
	Status             string          `xml:"status"`
	PrivateIPAddress   string          `xml:"privateIpAddress"`
	PrivateDNSName     string          `xml:"privateDnsName"`
	SourceDestCheck    bool            `xml:"sourceDestCheck"`
	GroupSet           set[groupXML]   `xml:"groupSet"`
	Attachment         attachmentXML   `xml:"attachment"`
	PrivateIPAddresses set[addressXML] `xml:"privateIpAddressesSet"`
	InterfaceType      string          `xml:"interfaceType"`
}

type instanceXML struct {
	InstanceID            string            `xml:"instanceId"`
	ImageID               string            `xml:"imageId"`
	State                 stateXML          `xml:"instanceState"`
	PrivateDNSName        string            `xml:"privateDnsName"`
	DNSName               string            `xml:"dnsName"`
	Reason                string            `xml:"reason"`
	AMILaunchIndex        int               `xml:"amiLaunchIndex"`
	ProductCodes          set[string]       `xml:"productCodes"`
	InstanceType          string            `xml:"instanceType"`
	LaunchTime            string            `xml:"launchTime"`
	Placement             placementXML      `xml:"placement"`
	Monitoring            monitoringXML     `xml:"monitoring"`
	SubnetID              string            `xml:"subnetId,omitempty"`
	VpcID                 string            `xml:"vpcId,omitempty"`
	PrivateIPAddress      string            `xml:"privateIpAddress,omitempty"`
	SourceDestCheck       bool              `xml:"sourceDestCheck"`
	GroupSet              set[groupXML]     `xml:"groupSet"`
	StateReason           *reasonXML        `xml:"stateReason"`
	Architecture          string            `xml:"architecture"`
	RootDeviceType        string            `xml:"rootDeviceType"`
	RootDeviceName        string            `xml:"rootDeviceName"`
	BlockDeviceMapping    set[attachedXML]  `xml:"blockDeviceMapping"`
	VirtualizationType    string            `xml:"virtualizationType"`
	Lifecycle             string            `xml:"instanceLifecycle,omitempty"`
	SpotInstanceRequestID string            `xml:"spotInstanceRequestId,omitempty"`
	ClientToken           string            `xml:"clientToken"`
	TagSet                set[tagXML]       `xml:"tagSet"`
	Hypervisor            string            `xml:"hypervisor"`
	NetworkInterfaces     set[interfaceXML] `xml:"networkInterfaceSet"`
	IAMInstanceProfile    *profileRefXML    `xml:"iamInstanceProfile"`
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
