// Package migrate converts what launched a cluster's nodes before into NodePools (karpenter.sh/v1) and EC2NodeClasses
// (karpenter.k8s.aws/v1). It reads Karpenter's manifests since its first API: Provisioner, AWSNodeTemplate and the
// ConfigMap karpenter-global-settings (v1alpha5), NodePool and EC2NodeClass of v1beta1, and workloads that use labels
// and annotations of those versions. It also reads node groups as written by kops, eksctl and the AWS CLI; each first
// becomes a group.
//
// A Note tells the fate of every field of the input: mapped, approximated, dropped, added because a default has
// changed, or a warning. Fields that are not about nodes, and state in the AWS CLI's output, are skipped. The output
// is a fixed point: it is read and written again unchanged.
//
// Sources: karpenter.sh/v0.32/upgrading/v1beta1-migration and karpenter.sh/docs/upgrading/v1-migration for the
// fields; the API definitions of sigs.k8s.io/karpenter and github.com/aws/karpenter-provider-aws for defaults.
package migrate
