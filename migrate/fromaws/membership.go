package fromaws

import (
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/catalog"
)

// Tags whose value is a cluster's name: that of EKS, and that of kops and older Kubernetes.
const (
	eksTag  = "eks:cluster-name"
	kopsTag = "KubernetesCluster"
)

// clusterTags returns the keys of tags that may name a cluster: on whatever belongs to it, and on what Cluster
// Autoscaler may use.
func clusterTags(cluster string) []string {
	return []string{"kubernetes.io/cluster/" + cluster, "k8s.io/cluster-autoscaler/" + cluster, eksTag, kopsTag}
}

// OfCluster reports whether the tags of an Auto Scaling group say that its instances belong to the cluster.
func OfCluster(tags []astypes.TagDescription, cluster string) bool {
	return slices.ContainsFunc(tags, func(t astypes.TagDescription) bool {
		key := awssdk.ToString(t.Key)
		return slices.Contains(clusterTags(cluster), key) &&
			(key != eksTag && key != kopsTag || awssdk.ToString(t.Value) == cluster)
	})
}

// Role is the purpose of a group's instances. The order is that in which kops updates them.
type Role int

// The roles of kops, which it writes into tags k8s.io/role/NAME (kubernetes/kops 268927e264,
// pkg/instancegroups/rollingupdate.go).
const (
	Bastion Role = iota
	ControlPlane
	APIServer
	Worker // also if no tag names a role
)

// RoleOf returns the role that the tags of a group name.
func RoleOf(tags []astypes.TagDescription) Role {
	role := Worker
	for _, t := range tags {
		switch awssdk.ToString(t.Key) {
		case "k8s.io/role/bastion":
			role = min(role, Bastion)
		case "k8s.io/role/control-plane", "k8s.io/role/master":
			role = min(role, ControlPlane)
		case "k8s.io/role/apiserver":
			role = min(role, APIServer)
		}
	}
	return role
}

// InstanceID returns the ID of a node's EC2 instance; "" if it has none.
func InstanceID(n *corev1.Node) string {
	if id := catalog.InstanceID(n.Spec.ProviderID); strings.HasPrefix(id, "i-") {
		return id
	}
	return ""
}
