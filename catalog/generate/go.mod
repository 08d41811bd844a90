module github.com/nodeless/nodeless/catalog/generate

go 1.26.6

// The first and last are not imported: their data files are read where the module cache has them. Do not tidy.
require (
	github.com/LeanerCloud/ec2-instances-info v0.0.0-00010101000000-000000000000
	github.com/aws/amazon-vpc-resource-controller-k8s v1.8.2
	github.com/aws/karpenter-provider-aws v1.14.1
)

replace github.com/LeanerCloud/ec2-instances-info => github.com/cristim/ec2-instances-info v0.0.0-20250528091325-32acf84f42eb
