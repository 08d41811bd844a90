package status_test

import (
	"context"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/status"
	"github.com/nodeless/nodeless/plane/planetest"
)

// late is a cache that has not received the latest changes.
type late struct {
	client.Reader
	class *ec2v1.EC2NodeClass
}

func (l late) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	l.class.DeepCopyInto(into.(*ec2v1.EC2NodeClass))
	return nil
}

func TestARefreshedClassIsNewerThanTheCache(t *testing.T) {
	ctx := context.Background()
	api, err := client.New(planetest.Start(t).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	class := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "refreshed"}, Spec: ec2v1.EC2NodeClassSpec{
		Role: "r", AMISelectorTerms: []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}},
		SubnetSelectorTerms:        []ec2v1.SubnetSelectorTerm{{Tags: map[string]string{"a": "b"}}},
		SecurityGroupSelectorTerms: []ec2v1.SecurityGroupSelectorTerm{{Tags: map[string]string{"a": "b"}}},
	}}
	if err := api.Create(ctx, class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(ctx, class) })
	classes := status.NewClasses(context.Background(), late{class: class.DeepCopy()})
	class.Labels = map[string]string{"changed": "true"}
	if err := api.Update(ctx, class); err != nil {
		t.Fatal(err)
	}
	ref := cloud.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: class.Name}
	if got := classes.Get(ref); got == nil || got.Labels["changed"] != "" {
		t.Fatalf("the cache is not late: %v", got)
	}
	classes.Refresh(ctx, api, ref)
	if got := classes.Get(ref); got.Labels["changed"] != "true" {
		t.Errorf("after a refresh the class is as before: %v", got.Labels)
	}
	classes.Refresh(ctx, api, cloud.ClassRef{Group: "example.com", Kind: "Unknown", Name: "x"}) // changes nothing
}
