package catalog

// fargateRate is what AWS Fargate charges for a pod on Linux and x86, in micro-dollars per hour: for a vCPU and for a
// GB of memory.
type fargateRate struct{ vcpu, gb int64 }

// fargateRates are by region (AWS Fargate Pricing, https://aws.amazon.com/fargate/pricing/, as in force since January
// 2019). Those of us-east-1, ap-northeast-1 and sa-east-1 were checked against a second document; the other three
// belong to the group of regions for which AWS published the rates of us-east-1. Those of ap-northeast-2 are the usage
// types APN2-Fargate-vCPU-Hours:perCPU and APN2-Fargate-GB-Hours of the public price list
// (https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonECS/current/ap-northeast-2/index.json), checked
// against two documents that quote it. Other regions have no price here.
var fargateRates = map[string]fargateRate{
	"us-east-1": {40_480, 4_445}, "us-east-2": {40_480, 4_445}, "us-west-2": {40_480, 4_445}, "eu-west-1": {40_480, 4_445},
	"ap-northeast-1": {50_560, 5_530},
	"ap-northeast-2": {46_560, 5_110},
	"sa-east-1":      {69_600, 7_600},
}

// Fargate's price of storage in micro-dollars per GB and hour, and the GB that are included.
const (
	fargateStorageGB       = 111
	fargateStorageIncluded = 20
)

// FargateHour returns the price of a pod of this size on AWS Fargate, in micro-dollars per hour; ok is false if the
// region's rates are unknown. A GB is a GiB, as in Fargate's table of sizes. Fargate bills by the second, with a
// minimum of one minute, which no sum here reflects: only rates are shown, not what ended pods have cost.
func FargateHour(region string, milliCPU, memoryBytes, storageBytes int64) (micros int64, ok bool) {
	r, ok := fargateRates[region]
	if !ok {
		return 0, false
	}
	const gb = 1 << 30
	sum := float64(milliCPU)/1000*float64(r.vcpu) + float64(memoryBytes)/gb*float64(r.gb)
	if extra := float64(storageBytes)/gb - fargateStorageIncluded; extra > 0 {
		sum += extra * fargateStorageGB
	}
	return int64(sum + 0.5), true
}
