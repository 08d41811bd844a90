package incluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/region/awsapi"
)

// addons maps EKS add-ons to their workloads in kube-system.
var addons = []struct {
	name     string
	workload client.Object
}{
	{"aws-ebs-csi-driver", daemonSet("ebs-csi-node")},
	{"coredns", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "coredns"}}},
	{"kube-proxy", daemonSet("kube-proxy")},
	{"vpc-cni", daemonSet("aws-node")},
}

func daemonSet(name string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Addons implements awsapi.Kubernetes. An add-on's version is that of its workload's image; it is degraded while some
// of its pods are not available.
func (c *Cluster) Addons(ctx context.Context) ([]awsapi.Addon, error) {
	var out []awsapi.Addon
	for _, a := range addons {
		w, _ := a.workload.DeepCopyObject().(client.Object)
		err := c.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: w.GetName()}, w)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read add-on %s: %w", a.name, err)
		}
		out = append(out, addonOf(a.name, w))
	}
	return out, nil
}

func addonOf(name string, w client.Object) awsapi.Addon {
	created := w.GetCreationTimestamp().Time
	out := awsapi.Addon{UID: string(w.GetUID()), Addon: types.Addon{
		AddonName: &name, CreatedAt: &created, ModifiedAt: &created, Status: types.AddonStatusActive,
		Owner: aws.String("aws"), Publisher: aws.String("eks"), Health: &types.AddonHealth{Issues: []types.AddonIssue{}},
	}}
	var template corev1.PodTemplateSpec
	var wanted, available int32
	switch w := w.(type) {
	case *appsv1.DaemonSet:
		template, wanted, available = w.Spec.Template, w.Status.DesiredNumberScheduled, w.Status.NumberAvailable
	case *appsv1.Deployment:
		template, wanted, available = w.Spec.Template, aws.ToInt32(w.Spec.Replicas), w.Status.AvailableReplicas
	}
	if len(template.Spec.Containers) > 0 {
		out.AddonVersion = aws.String(versionOf(template.Spec.Containers[0].Image))
	}
	if available < wanted {
		out.Status = types.AddonStatusDegraded
		out.Health.Issues = append(out.Health.Issues, types.AddonIssue{
			Code:    types.AddonIssueCodeInsufficientNumberOfReplicas,
			Message: aws.String("The add-on is unhealthy because it doesn't have the desired number of replicas."),
		})
	}
	return out
}

// versionOf derives an add-on's version from its image: EKS's image of kube-proxy v1.36.2-eksbuild.1 has the tag
// v1.36.2-minimal-eksbuild.1.
func versionOf(image string) string {
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return strings.Replace(tag, "-minimal", "", 1)
}
