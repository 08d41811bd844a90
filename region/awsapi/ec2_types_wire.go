package awsapi

// instanceTypeXML is what DescribeInstanceTypes tells of a type.
type instanceTypeXML struct {
	InstanceType             string           `xml:"instanceType"`
	CurrentGeneration        bool             `xml:"currentGeneration"`
	FreeTierEligible         bool             `xml:"freeTierEligible"`
	UsageClasses             set[string]      `xml:"supportedUsageClasses"`
	RootDeviceTypes          set[string]      `xml:"supportedRootDeviceTypes"`
	VirtualizationTypes      set[string]      `xml:"supportedVirtualizationTypes"`
	BareMetal                bool             `xml:"bareMetal"`
	Hypervisor               string           `xml:"hypervisor,omitempty"`
	Processor                processorXML     `xml:"processorInfo"`
	VCPU                     vcpuXML          `xml:"vCpuInfo"`
	Memory                   mibXML           `xml:"memoryInfo"`
	InstanceStorageSupported bool             `xml:"instanceStorageSupported"`
	Storage                  *storageXML      `xml:"instanceStorageInfo"`
	EBS                      ebsXML           `xml:"ebsInfo"`
	Network                  networkXML       `xml:"networkInfo"`
	GPU                      *gpusXML         `xml:"gpuInfo"`
	Inference                *inferenceXML    `xml:"inferenceAcceleratorInfo"`
	Neuron                   *neuronXML       `xml:"neuronInfo"`
	PlacementGroup           placementInfoXML `xml:"placementGroupInfo"`
	Hibernation              bool             `xml:"hibernationSupported"`
	Burstable                bool             `xml:"burstablePerformanceSupported"`
	DedicatedHosts           bool             `xml:"dedicatedHostsSupported"`
	AutoRecovery             bool             `xml:"autoRecoverySupported"`
	BootModes                set[string]      `xml:"supportedBootModes"`
	NitroEnclaves            string           `xml:"nitroEnclavesSupport"`
}

type processorXML struct {
	Architectures set[string] `xml:"supportedArchitectures"`
	ClockSpeedGHz float64     `xml:"sustainedClockSpeedInGhz,omitempty"`
	Manufacturer  string      `xml:"manufacturer,omitempty"`
}

type vcpuXML struct {
	DefaultVCPUs          int `xml:"defaultVCpus"`
	DefaultCores          int `xml:"defaultCores"`
	DefaultThreadsPerCore int `xml:"defaultThreadsPerCore"`
}

type mibXML struct {
	SizeMiB int64 `xml:"sizeInMiB"`
}

type diskXML struct {
	SizeGB int64  `xml:"sizeInGB"`
	Count  int    `xml:"count"`
	Type   string `xml:"type"`
}

type storageXML struct {
	TotalSizeGB int64        `xml:"totalSizeInGB"`
	Disks       set[diskXML] `xml:"disks"`
	NVMeSupport string       `xml:"nvmeSupport"`
	Encryption  string       `xml:"encryptionSupport"`
}

type ebsOptimizedXML struct {
	BaselineMbps int `xml:"baselineBandwidthInMbps"`
	MaximumMbps  int `xml:"maximumBandwidthInMbps"`
}

type ebsXML struct {
	OptimizedSupport string           `xml:"ebsOptimizedSupport"`
	Encryption       string           `xml:"encryptionSupport"`
	Optimized        *ebsOptimizedXML `xml:"ebsOptimizedInfo"`
	NVMeSupport      string           `xml:"nvmeSupport"`
	MaximumVolumes   int              `xml:"maximumEbsAttachments"`
	LimitType        string           `xml:"attachmentLimitType"`
}

type networkCardXML struct {
	Index             int    `xml:"networkCardIndex"`
	Performance       string `xml:"networkPerformance"`
	MaximumInterfaces int    `xml:"maximumNetworkInterfaces"`
}

type efaXML struct {
	MaximumInterfaces int `xml:"maximumEfaInterfaces"`
}

type networkXML struct {
	Performance              string              `xml:"networkPerformance"`
	MaximumInterfaces        int                 `xml:"maximumNetworkInterfaces"`
	MaximumCards             int                 `xml:"maximumNetworkCards"`
	DefaultCardIndex         int                 `xml:"defaultNetworkCardIndex"`
	Cards                    set[networkCardXML] `xml:"networkCards"`
	IPv4AddressesPerInteface int                 `xml:"ipv4AddressesPerInterface"`
	IPv6AddressesPerInteface int                 `xml:"ipv6AddressesPerInterface"`
	IPv6Supported            bool                `xml:"ipv6Supported"`
	ENASupport               string              `xml:"enaSupport"`
	EFASupported             bool                `xml:"efaSupported"`
	EFA                      *efaXML             `xml:"efaInfo"`
	EncryptionInTransit      bool                `xml:"encryptionInTransitSupported"`
}

type deviceXML struct {
	Name         string  `xml:"name"`
	Manufacturer string  `xml:"manufacturer"`
	Count        int     `xml:"count"`
	Memory       *mibXML `xml:"memoryInfo"`
}

type gpusXML struct {
	GPUs           set[deviceXML] `xml:"gpus"`
	TotalMemoryMiB int64          `xml:"totalGpuMemoryInMiB"`
}

// inferenceXML breaks EC2's habit: its list has member, not item.
type inferenceXML struct {
	Accelerators members[deviceXML] `xml:"accelerators"`
}

type neuronCoreXML struct {
	Count int `xml:"count"`
}

type neuronDeviceXML struct {
	Count int           `xml:"count"`
	Name  string        `xml:"name"`
	Core  neuronCoreXML `xml:"coreInfo"`
}

type neuronXML struct {
	Devices set[neuronDeviceXML] `xml:"neuronDevices"`
}

type placementInfoXML struct {
	Strategies set[string] `xml:"supportedStrategies"`
}
