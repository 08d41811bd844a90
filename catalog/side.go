package catalog

import "math"

// PublicIPv4 is the price of a public IPv4 address, in micro-dollars per hour, in every region (AWS, "Amazon VPC
// pricing", Public IPv4 Address, 2026).
const PublicIPv4 = 5_000

// Volume is an EBS volume. IOPS and MiBps are provisioned; 0 = as included in the type.
type Volume struct {
	Type        string // such as gp3
	GiB         int64
	IOPS, MiBps int64
}

// volumePrice is the monthly price of volumes of a type in us-east-1, in dollars (AWS, "Amazon EBS pricing", 2026).
type volumePrice struct {
	gib       float64
	iops      float64 // each above freeIOPS
	freeIOPS  int64
	mibps     float64 // each above freeMiBps
	freeMiBps int64
}

var volumePrices = map[string]volumePrice{
	"gp3":      {gib: 0.08, iops: 0.005, freeIOPS: 3000, mibps: 0.04, freeMiBps: 125},
	"gp2":      {gib: 0.10},
	"io1":      {gib: 0.125, iops: 0.065},
	"io2":      {gib: 0.125, iops: 0.065},
	"st1":      {gib: 0.045},
	"sc1":      {gib: 0.015},
	"standard": {gib: 0.05},
}

// gp3Prices are the monthly prices of a GiB of gp3 where they are not $0.08, in dollars (AWS, "Amazon EBS pricing",
// 2026). The other types cost more there in about the same proportion.
var gp3Prices = map[string]float64{
	"af-south-1": 0.1047, "ap-east-1": 0.1056, "ap-northeast-1": 0.096, "ap-northeast-2": 0.0912,
	"ap-northeast-3": 0.096, "ap-south-1": 0.0912, "ap-southeast-1": 0.096, "ap-southeast-2": 0.096,
	"ca-central-1": 0.088, "eu-central-1": 0.0952, "eu-north-1": 0.0836, "eu-south-1": 0.0924, "eu-west-1": 0.088,
	"eu-west-2": 0.0928, "eu-west-3": 0.0928, "me-south-1": 0.0968, "sa-east-1": 0.152, "us-west-1": 0.096,
}

// hoursPerMonth is the factor by which AWS converts monthly into hourly prices (AWS Pricing Calculator).
const hoursPerMonth = 730

// VolumePrice returns the price of a volume in a region, in micro-dollars per hour. An unknown type counts as gp3, an
// unknown region as us-east-1.
func VolumePrice(region string, v Volume) int64 {
	p, ok := volumePrices[v.Type]
	if !ok {
		p = volumePrices["gp3"]
	}
	month := p.gib*float64(max(v.GiB, 0)) + p.iops*float64(max(v.IOPS-p.freeIOPS, 0)) +
		p.mibps*float64(max(v.MiBps-p.freeMiBps, 0))
	if gp3, ok := gp3Prices[region]; ok {
		month *= gp3 / volumePrices["gp3"].gib
	}
	return int64(math.Round(month * 1e6 / hoursPerMonth))
}
