package awsapi

// instanceTypeXML is a type in the answer of DescribeInstanceTypes.
type instanceTypeXML struct {
	InstanceType             string           `xml:"instanceType" filter:"instance-type"`
	CurrentGeneration        bool             `xml:"currentGeneration" filter:"current-generation"`
	FreeTierEligible         bool             `xml:"freeTierEligible" filter:"free-tier-eligible"`
	UsageClasses             set[string]      `xml:"supportedUsageClasses" filter:"supported-usage-class"`
	RootDeviceTypes          set[string]      `xml:"supportedRootDeviceTypes" filter:"supported-root-device-type"`
	VirtualizationTypes      set[string]      `xml:"supportedVirtualizationTypes" filter:"supported-virtualization-type"`
	BareMetal                bool             `xml:"bareMetal" filter:"bare-metal"`
	Hypervisor               string           `xml:"hypervisor,omitempty" filter:"hypervisor"`
	Processor                processorXML     `xml:"processorInfo" filter:"processor-info."`
	VCPU                     vcpuXML          `xml:"vCpuInfo" filter:"vcpu-info."`
	Memory                   mibXML           `xml:"memoryInfo" filter:"memory-info."`
	InstanceStorageSupported bool             `xml:"instanceStorageSupported" filter:"instance-storage-supported"`
	Storage                  *storageXML      `xml:"instanceStorageInfo" filter:"instance-storage-info."`
	EBS                      ebsXML           `xml:"ebsInfo" filter:"ebs-info."`
	Network                  networkXML       `xml:"networkInfo" filter:"network-info."`
	GPU                      *gpusXML         `xml:"gpuInfo"`
	Inference                *inferenceXML    `xml:"inferenceAcceleratorInfo"`
	Neuron                   *neuronXML       `xml:"neuronInfo"`
	PlacementGroup           placementInfoXML `xml:"placementGroupInfo"`
	Hibernation              bool             `xml:"hibernationSupported" filter:"hibernation-supported"`
	Burstable                bool             `xml:"burstablePerformanceSupported" filter:"burstable-performance-supported"`
	DedicatedHosts           bool             `xml:"dedicatedHostsSupported" filter:"dedicated-hosts-supported"`
	AutoRecovery             bool             `xml:"autoRecoverySupported" filter:"auto-recovery-supported"`
	BootModes                set[string]      `xml:"supportedBootModes" filter:"supported-boot-mode"`
	NitroEnclaves            string           `xml:"nitroEnclavesSupport" filter:"nitro-enclaves-support"`
}

type processorXML struct {
	Architectures set[string] `xml:"supportedArchitectures" filter:"supported-architecture"`
	ClockSpeedGHz float64     `xml:"sustainedClockSpeedInGhz,omitempty" filter:"sustained-clock-speed-in-ghz"`
	Manufacturer  string      `xml:"manufacturer,omitempty"`
}

type vcpuXML struct {
	DefaultVCPUs          int `xml:"defaultVCpus" filter:"default-vcpus"`
	DefaultCores          int `xml:"defaultCores" filter:"default-cores"`
	DefaultThreadsPerCore int `xml:"defaultThreadsPerCore" filter:"default-threads-per-core"`
}

type mibXML struct {
	SizeMiB int64 `xml:"sizeInMiB" filter:"size-in-mib"`
}

type diskXML struct {
	SizeGB int64  `xml:"sizeInGB"`
	Count  int    `xml:"count"`
	Type   string `xml:"type" filter:"type"`
}

type storageXML struct {
	TotalSizeGB int64        `xml:"totalSizeInGB" filter:"total-size-in-gb"`
	Disks       set[diskXML] `xml:"disks" filter:"disk."`
	NVMeSupport string       `xml:"nvmeSupport" filter:"nvme-support"`
	Encryption  string       `xml:"encryptionSupport"`
}

type ebsOptimizedXML struct {
	BaselineMbps int `xml:"baselineBandwidthInMbps"`
	MaximumMbps  int `xml:"maximumBandwidthInMbps"`
}

type ebsXML struct {
	OptimizedSupport string           `xml:"ebsOptimizedSupport" filter:"ebs-optimized-support"`
	Encryption       string           `xml:"encryptionSupport" filter:"encryption-support"`
	Optimized        *ebsOptimizedXML `xml:"ebsOptimizedInfo"`
	NVMeSupport      string           `xml:"nvmeSupport" filter:"nvme-support"`
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
	Performance              string              `xml:"networkPerformance" filter:"network-performance"`
	MaximumInterfaces        int                 `xml:"maximumNetworkInterfaces" filter:"maximum-network-interfaces"`
	MaximumCards             int                 `xml:"maximumNetworkCards" filter:"maximum-network-cards"`
	DefaultCardIndex         int                 `xml:"defaultNetworkCardIndex"`
	Cards                    set[networkCardXML] `xml:"networkCards"`
	IPv4AddressesPerInteface int                 `xml:"ipv4AddressesPerInterface" filter:"ipv4-addresses-per-interface"`
	IPv6AddressesPerInteface int                 `xml:"ipv6AddressesPerInterface"`
	IPv6Supported            bool                `xml:"ipv6Supported" filter:"ipv6-supported"`
	ENASupport               string              `xml:"enaSupport" filter:"ena-support"`
	EFASupported             bool                `xml:"efaSupported" filter:"efa-supported"`
	EFA                      *efaXML             `xml:"efaInfo"`
	EncryptionInTransit      bool                `xml:"encryptionInTransitSupported" filter:"encryption-in-transit-supported"`
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
