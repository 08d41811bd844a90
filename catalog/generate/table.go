package main

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc"
)

// instance is the part of a record of ec2-instances-info that the catalogue needs.
type instance struct {
	Name       string              `json:"instance_type"`
	VCPU       int                 `json:"vCPU"`
	MemoryGiB  float64             `json:"memory"`
	Arch       []string            `json:"arch"`
	Generation string              `json:"generation"`
	Clock      string              `json:"clock_speed_ghz"`
	Processor  string              `json:"physical_processor"`
	GPU        int                 `json:"GPU"`
	GPUModel   string              `json:"GPU_model"`
	GPUMemory  float64             `json:"GPU_memory"` // GiB, of all GPUs together
	Network    string              `json:"network_performance"`
	Baseline   *float64            `json:"base_performance"` // CPU share without credits; nil if not burstable
	NVMe       bool                `json:"ebs_as_nvme"`
	EBS        int                 `json:"ebs_baseline_bandwidth"`
	EBSMax     int                 `json:"ebs_max_bandwidth"`
	Zones      map[string][]string `json:"availability_zones"` // zone ids by region
	Storage    *struct {
		Devices int     `json:"devices"`
		Size    float64 `json:"size"` // GB, one device
		NVMe    bool    `json:"nvme_ssd"`
	} `json:"storage"`
	VPC *struct {
		ENIs int `json:"max_enis"`
		IPs  int `json:"ips_per_eni"`
	} `json:"vpc"`
	Pricing map[string]regionPrices `json:"pricing"`
}

// regionPrices holds the Linux prices. The source also has other systems, and surcharges in other formats.
type regionPrices struct {
	Linux struct {
		OnDemand  string   `json:"ondemand"`
		Spot      []string `json:"spot"`
		Average   string   `json:"spot_avg"`
		Interrupt string   `json:"pct_interrupt"`
	} `json:"linux"`
}

// regions are the regions in the catalogue.
var regions = []string{
	"ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ca-central-1", "eu-central-1",
	"eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2",
}

// write writes the table: a line with the origin, a line for each type (T …) followed by a line with its prices for
// each region (P …), and the number of types left out (L …). catalog/data.go, which reads the table, explains the
// columns.
func write(w io.Writer, instances []instance, newer, bandwidth map[string]float64) (kept, left int) {
	var known []string
	fmt.Fprintf(w, "# %s\n", origin)
	for i := range instances {
		t := &instances[i]
		known = append(known, t.Name)
		row, ok := typeRow(t, bandwidth)
		if !ok {
			left++
			continue
		}
		kept++
		fmt.Fprintln(w, strings.Join(row, "\t"))
		for _, region := range regions {
			if row, ok := priceRow(t, region, newer); ok {
				fmt.Fprintln(w, strings.Join(row, "\t"))
			}
		}
	}
	for name := range newer {
		if !slices.Contains(known, name) {
			left++
		}
	}
	fmt.Fprintf(w, "L\t%d\n", left)
	return kept, left
}

func typeRow(t *instance, bandwidth map[string]float64) ([]string, bool) {
	arch := ""
	switch {
	case slices.Contains(t.Arch, "x86_64"):
		arch = "amd64"
	case slices.Contains(t.Arch, "arm64"):
		arch = "arm64"
	default:
		return nil, false // macOS machines
	}
	l, ok := vpc.Limits[t.Name]
	enis, ips, branch, hypervisor, metal := 0, 0, 0, "xen", strings.Contains(t.Name, "metal")
	if t.NVMe {
		hypervisor = "nitro" // only nitro shows EBS volumes as NVMe devices
	}
	switch {
	case ok:
		card := slices.IndexFunc(l.NetworkCards, func(c vpc.NetworkCard) bool {
			return int(c.NetworkCardIndex) == l.DefaultNetworkCardIndex
		})
		enis, ips, hypervisor, metal = l.Interface, l.IPv4PerInterface, l.Hypervisor, l.IsBareMetal
		if card >= 0 {
			enis = int(l.NetworkCards[card].MaximumNetworkInterfaces)
		}
		if l.IsTrunkingCompatible {
			branch = l.BranchInterface
		}
	case t.VPC != nil:
		enis, ips = t.VPC.ENIs, t.VPC.IPs
	}
	if enis == 0 || t.VCPU == 0 || t.MemoryGiB == 0 {
		return nil, false
	}
	gpu, accelerator := devices(t)
	nvme := 0
	if t.Storage != nil && t.Storage.NVMe {
		nvme = t.Storage.Devices * int(t.Storage.Size)
	}
	return []string{
		"T", t.Name, itoa(t.VCPU), itoa(int(math.Round(t.MemoryGiB * 1024))), arch, manufacturer(t.Processor), clock(t.Clock),
		hypervisor, boolean(metal), itoa(enis), itoa(ips), itoa(branch), itoa(network(t.Network)),
		itoa(int(bandwidth[t.Name])), itoa(max(t.EBS, 0)), itoa(max(t.EBSMax, t.EBS)),
		itoa(nvme), boolean(t.Generation == "current"), boolean(t.Baseline != nil), gpu, accelerator,
	}, true
}

// devices returns "manufacturer:name:count:MiB each" of GPUs and "manufacturer:name:count:cores each" of
// accelerators. Neuron cores per device are from the AWS Neuron documentation: Inferentia 4, Inferentia2 and Trainium
// 2.
func devices(t *instance) (gpu, accelerator string) {
	family, _, _ := strings.Cut(t.Name, ".")
	switch {
	case family == "inf1":
		return "", fmt.Sprintf("aws:Inferentia:%d:4", t.GPU)
	case family == "inf2":
		return "", fmt.Sprintf("aws:Inferentia2:%d:2", t.GPU)
	case strings.HasPrefix(family, "trn1"):
		return "", fmt.Sprintf("aws:Trainium:%d:2", t.GPU)
	case family == "dl1":
		return "habana:Gaudi HL-205:8:32768", ""
	case t.GPU == 0 || t.GPUModel == "":
		return "", ""
	}
	maker, name := "nvidia", t.GPUModel
	if strings.HasPrefix(name, "AMD ") {
		maker = "amd"
	}
	for _, word := range []string{"NVIDIA ", "AMD ", "Tesla ", "GRID ", " Tensor Core"} {
		name = strings.ReplaceAll(name, word, "")
	}
	return fmt.Sprintf("%s:%s:%d:%d", maker, name, t.GPU, int(t.GPUMemory*1024)/t.GPU), ""
}

// priceRow returns a type's row for a region: zone IDs, on-demand price, spot prices over the zones, their average
// over time, interruption class; prices in micro-dollars. Types without zones or price are not offered there. Newer
// prices of .metal types are ignored: they are dedicated-tenancy prices, 6 to 10 % too high
// (aws.amazon.com/ec2/pricing/on-demand).
func priceRow(t *instance, region string, newer map[string]float64) ([]string, bool) {
	linux := t.Pricing[region].Linux
	zones := slices.Clone(t.Zones[region])
	sort.Strings(zones)
	price, err := strconv.ParseFloat(linux.OnDemand, 64)
	if p, ok := newer[t.Name]; ok && region == "us-east-1" && !strings.Contains(t.Name, ".metal") {
		price, err = p, nil
	}
	if err != nil || price <= 0 || len(zones) == 0 {
		return nil, false
	}
	var spot []string
	for _, s := range linux.Spot {
		if p, err := strconv.ParseFloat(s, 64); err == nil && p > 0 {
			spot = append(spot, micro(p))
		}
	}
	average := ""
	if p, err := strconv.ParseFloat(linux.Average, 64); err == nil && p > 0 && len(spot) > 0 {
		average = micro(p)
	}
	return []string{
		"P", region, strings.Join(zones, ","), micro(price), strings.Join(spot, ","), average,
		linux.Interrupt,
	}, true
}

func manufacturer(processor string) string {
	switch {
	case strings.Contains(processor, "Graviton"):
		return "aws"
	case strings.Contains(processor, "AMD"):
		return "amd"
	}
	return "intel"
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

func clock(s string) string { return number.FindString(s) }

// network parses "Up to 12.5 Gigabit" and "4x 100 Gigabit" as Mbit/s. It translates the words for old types as EC2's
// documentation does for comparison.
func network(s string) int {
	switch s {
	case "Very Low":
		return 50
	case "Low":
		return 100
	case "Low to Moderate":
		return 300
	case "Moderate":
		return 750
	case "High":
		return 1000
	}
	factor := 1.0
	if n, rest, ok := strings.Cut(s, "x "); ok {
		if f, err := strconv.ParseFloat(n, 64); err == nil {
			factor, s = f, rest
		}
	}
	f, _ := strconv.ParseFloat(number.FindString(s), 64)
	return int(math.Round(factor * f * 1000))
}

func itoa(n int) string { return strconv.Itoa(n) }

func boolean(b bool) string {
	if b {
		return "1"
	}
	return ""
}

func micro(dollars float64) string { return strconv.FormatInt(int64(math.Round(dollars*1e6)), 10) }
