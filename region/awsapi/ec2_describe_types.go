package awsapi

import (
	"slices"
	"strconv"
)

func (t instanceTypeXML) name() string { return t.InstanceType }

func (t instanceTypeXML) attributes() attributes {
	a := attributes{
		"instance-type": {t.InstanceType}, "current-generation": boolText(t.CurrentGeneration), "bare-metal": boolText(t.BareMetal),
		"free-tier-eligible": boolText(t.FreeTierEligible), "hypervisor": {t.Hypervisor}, "burstable-performance-supported": boolText(t.Burstable),
		"supported-usage-class": t.UsageClasses.Items, "supported-root-device-type": t.RootDeviceTypes.Items,
		"supported-virtualization-type": t.VirtualizationTypes.Items, "supported-boot-mode": t.BootModes.Items,
		"processor-info.supported-architecture":       t.Processor.Architectures.Items,
		"processor-info.sustained-clock-speed-in-ghz": {strconv.FormatFloat(t.Processor.ClockSpeedGHz, 'f', -1, 64)},
		"vcpu-info.default-vcpus":                     {strconv.Itoa(t.VCPU.DefaultVCPUs)},
		"vcpu-info.default-cores":                     {strconv.Itoa(t.VCPU.DefaultCores)},
		"vcpu-info.default-threads-per-core":          {strconv.Itoa(t.VCPU.DefaultThreadsPerCore)},
		"memory-info.size-in-mib":                     {strconv.FormatInt(t.Memory.SizeMiB, 10)},
		"instance-storage-supported":                  boolText(t.InstanceStorageSupported),
		"instance-storage-info.total-size-in-gb":      nil, "instance-storage-info.nvme-support": nil,
		"instance-storage-info.disk.type":              nil,
		"ebs-info.ebs-optimized-support":               {t.EBS.OptimizedSupport},
		"ebs-info.nvme-support":                        {t.EBS.NVMeSupport},
		"ebs-info.encryption-support":                  {t.EBS.Encryption},
		"network-info.maximum-network-interfaces":      {strconv.Itoa(t.Network.MaximumInterfaces)},
		"network-info.ipv4-addresses-per-interface":    {strconv.Itoa(t.Network.IPv4AddressesPerInteface)},
		"network-info.network-performance":             {t.Network.Performance},
		"network-info.efa-supported":                   boolText(t.Network.EFASupported),
		"network-info.ena-support":                     {t.Network.ENASupport},
		"network-info.encryption-in-transit-supported": boolText(t.Network.EncryptionInTransit),
		"network-info.maximum-network-cards":           {strconv.Itoa(t.Network.MaximumCards)},
		"network-info.ipv6-supported":                  boolText(t.Network.IPv6Supported),
		"dedicated-hosts-supported":                    boolText(t.DedicatedHosts),
		"auto-recovery-supported":                      boolText(t.AutoRecovery),
		"hibernation-supported":                        boolText(t.Hibernation),
		"nitro-enclaves-support":                       {t.NitroEnclaves},
	}
	if s := t.Storage; s != nil {
		a["instance-storage-info.total-size-in-gb"] = []string{strconv.FormatInt(s.TotalSizeGB, 10)}
		a["instance-storage-info.nvme-support"] = []string{s.NVMeSupport}
		for _, d := range s.Disks.Items {
			a["instance-storage-info.disk.type"] = append(a["instance-storage-info.disk.type"], d.Type)
		}
	}
	return a
}

type typesAnswer struct {
	Types     set[instanceTypeXML] `xml:"instanceTypeSet"`
	NextToken string               `xml:"nextToken,omitempty"`
}

// answerTypes answers from all types that the region offers.
func (c *call) answerTypes(all []instanceTypeXML) (any, error) {
	found, err := named(all, c.form.strs("InstanceType"), instanceTypeXML.name, "InvalidInstanceType", "The following supplied instance types do not exist: [%s]")
	if err == nil {
		found, err = selected(found, c.filters(), instanceTypeXML.attributes)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 100, instanceTypeXML.name)
	return typesAnswer{Types: set[instanceTypeXML]{Items: found}, NextToken: next}, err
}

type offeringXML struct {
	InstanceType string `xml:"instanceType"`
	LocationType string `xml:"locationType"`
	Location     string `xml:"location"`
}

func (o offeringXML) key() string { return o.InstanceType + "/" + o.Location }

func (o offeringXML) attributes() attributes {
	return attributes{"instance-type": {o.InstanceType}, "location": {o.Location}}
}

type offeringsAnswer struct {
	Offerings set[offeringXML] `xml:"instanceTypeOfferingSet"`
	NextToken string           `xml:"nextToken,omitempty"`
}

// answerOfferings answers from what is offered per location of the kind that was asked for.
func (c *call) answerOfferings(locate func(locationType string) []offeringXML) (any, error) {
	kind := c.form.str("LocationType")
	if kind == "" {
		kind = "region"
	}
	if !slices.Contains([]string{"region", "availability-zone", "availability-zone-id"}, kind) {
		c.form.bad("LocationType", "region, availability-zone or availability-zone-id")
		return nil, c.form.fail()
	}
	found, err := selected(locate(kind), c.filters(), offeringXML.attributes)
	if err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 1000, offeringXML.key)
	return offeringsAnswer{Offerings: set[offeringXML]{Items: found}, NextToken: next}, err
}
