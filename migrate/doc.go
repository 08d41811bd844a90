// Package migrate turns what launched a cluster's nodes before into NodePools (karpenter.sh/v1) and EC2NodeClasses
// (karpenter.k8s.aws/v1). It reads the manifests of Karpenter from its first API on: Provisioner, AWSNodeTemplate and
// the ConfigMap karpenter-global-settings (v1alpha5), NodePool and EC2NodeClass of v1beta1, and workloads that refer to
// labels and annotations of those days; and node groups as kops, eksctl and the AWS CLI write them, each of which
// becomes a group first.
//
// Every field of the input has a fate, which a Note tells: mapped, approximated, dropped, added where a default of then
// is another one now, or a warning. What is not about nodes, and the state in what the AWS CLI prints, is passed over.
// What is written is a fixed point: it is read and written again unchanged.
//
// Sources: karpenter.sh/v0.32/upgrading/v1beta1-migration and karpenter.sh/docs/upgrading/v1-migration for the fields;
// the API definitions of sigs.k8s.io/karpenter and github.com/aws/karpenter-provider-aws for defaults.
package migrate
