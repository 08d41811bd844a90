package controller_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// workersGroup creates the Auto Scaling group workers with one node; remove deletes it.
func workersGroup(t *testing.T, s *stacktest.Stack) (remove func()) {
	t.Helper()
	config := awssdk.Config{
		Region: "us-west-2", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	ctx, machines, scaling := context.Background(), ec2.NewFromConfig(config), autoscaling.NewFromConfig(config)
	images, err := machines.DescribeImages(ctx, &ec2.DescribeImagesInput{Filters: []ec2types.Filter{
		{Name: awssdk.String("architecture"), Values: []string{"x86_64"}},
	}})
	if err != nil || len(images.Images) == 0 {
		t.Fatal(images, err)
	}
	subnets, err := machines.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	name := awssdk.String("workers")
	_, err = machines.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: name, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: images.Images[0].ImageId, InstanceType: "m5.large",
			UserData: awssdk.String(base64.StdEncoding.EncodeToString([]byte(
				"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: nodeless}}\n"))),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = scaling.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: name, MinSize: awssdk.Int32(1), MaxSize: awssdk.Int32(2),
		VPCZoneIdentifier: subnets.Subnets[0].SubnetId,
		LaunchTemplate:    &astypes.LaunchTemplateSpecification{LaunchTemplateName: name},
		Tags:              []astypes.Tag{{Key: awssdk.String("found"), Value: awssdk.String("here"), ResourceId: name}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		_, err := scaling.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{
			AutoScalingGroupName: name, ForceDelete: awssdk.Bool(true),
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A group is discovered, its node adopted and, when the NodeGroup is deleted, released, all under the RBAC rules for
// node groups.
func TestNodeGroupsUnderTheirRoles(t *testing.T) {
	s := stacktest.Start(t)
	ctx, namespace := context.Background(), planetest.Namespace(t, s.Plane)
	if err := v1alpha1.AddToScheme(s.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	for _, o := range rbac.Objects(namespace, controller.DefaultLease, rbac.NodeGroupRules()...) {
		create(t, s.Client, o)
		t.Cleanup(func() { _ = s.Client.Delete(ctx, o) })
	}
	for _, o := range rbac.Objects(namespace, controller.DefaultLease, rbac.NodeGroupRules()...) {
		granted(t, s, namespace, o)
	}
	remove := workersGroup(t, s)
	var log buffer
	r := s.Controller(t, func(o *controller.Options) {
		o.NodeGroupTags = []string{"found"}
		o.REST = rest.CopyConfig(o.REST)
		o.REST.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + namespace + ":" + rbac.Name,
			Groups:   []string{"system:serviceaccounts", "system:authenticated"},
		}
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	<-r.Leads
	node := nodeOf(t, s, "workers")
	group := objectOf(t, s, "workers", &v1alpha1.NodeGroup{})
	if group.Status.MinSize != 1 || group.Labels[v1alpha1.LabelDiscovered] != "true" {
		t.Errorf("labels %v, status %+v", group.Labels, group.Status)
	}

	if err := s.Client.Delete(ctx, group); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the group and its objects are let go", func(ctx context.Context) error {
		for _, o := range []client.Object{&v1alpha1.NodeGroup{}, &karpv1.NodePool{}} {
			if err := s.Client.Get(ctx, client.ObjectKey{Name: "workers"}, o); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("%T: %w", o, err)
			}
		}
		return nil
	})
	after := objectOf(t, s, node.Name, &corev1.Node{})
	if after.UID != node.UID || after.DeletionTimestamp != nil || len(after.Finalizers) > 0 ||
		after.Labels[karpv1.NodePoolLabelKey] != "" || len(after.OwnerReferences) > 0 {
		t.Errorf("the node that was let go: %+v", after.ObjectMeta)
	}
	r.Stop()
	remove()
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "forbidden") {
			t.Errorf("not allowed: %s", line)
		}
	}
}
