package incluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/region/awsapi"
)

// mapRoles is the key of aws-auth that lists the IAM roles that may use the cluster (EKS User Guide, "Grant IAM users
// access to Kubernetes with a ConfigMap").
const mapRoles = "mapRoles"

// MapRole implements awsapi.Kubernetes: EKS adds an entry to the ConfigMap aws-auth for each managed node group and
// each Fargate profile.
func (c *Cluster) MapRole(ctx context.Context, r awsapi.NodeRole) error {
	return c.changeRoles(ctx, func(entries []any) []any {
		if !r.Fargate && slices.ContainsFunc(entries, entryOf(r)) { // node groups with the same role share an entry
			return entries
		}
		groups := append([]string{"system:bootstrappers"}, r.Groups...)
		return append(entries, map[string]any{"groups": groups, "rolearn": r.ARN, "username": r.Username})
	})
}

// UnmapRole implements awsapi.Kubernetes.
func (c *Cluster) UnmapRole(ctx context.Context, r awsapi.NodeRole) error {
	return c.changeRoles(ctx, func(entries []any) []any {
		if i := slices.IndexFunc(entries, entryOf(r)); i >= 0 {
			return slices.Delete(entries, i, i+1)
		}
		return entries
	})
}

func entryOf(r awsapi.NodeRole) func(any) bool {
	return func(entry any) bool {
		m, _ := entry.(map[string]any)
		return m["rolearn"] == r.ARN && m["username"] == r.Username
	}
}

// changeRoles changes the entries and keeps those that users added. If mapRoles is not a list, it stays unchanged.
func (c *Cluster) changeRoles(ctx context.Context, change func([]any) []any) error {
	auth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "aws-auth", Namespace: metav1.NamespaceSystem}}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		_, err := controllerutil.CreateOrUpdate(ctx, c.client, auth, func() error {
			var entries []any
			if err := yaml.Unmarshal([]byte(auth.Data[mapRoles]), &entries); err != nil {
				c.log.Warn("ConfigMap kube-system/aws-auth: mapRoles is not a list, so that no role is added", "error", err)
				return nil
			}
			text, err := yaml.Marshal(change(entries))
			if auth.Data == nil {
				auth.Data = map[string]string{}
			}
			auth.Data[mapRoles] = string(text)
			return err
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("ConfigMap kube-system/aws-auth: %w", err)
	}
	return nil
}
