// Package wiretest tests cloud/aws over HTTP: the real SDK and AWS's protocols against the simulated region. It is a
// separate package so that the provider's tests do not need the simulation.
package wiretest

import (
	"net/http/httptest"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/cloud/cloudtest"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

func TestConformance(t *testing.T) {
	cloudtest.Run(t, cloudtest.Harness{Start: start})
}

func start(t *testing.T) cloudtest.Cloud {
	t.Helper()
	p := newPlace(t)
	named := func(name string) cloud.ClassRef {
		return cloud.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: name}
	}
	return cloudtest.Cloud{
		Connect: func(t *testing.T) cloud.Provider { return p.connect(t) },
		Ready:   named("default"), NotReady: named("raw"), Missing: named("nowhere"),
		Exhaust: func(t *testing.T, keys ...model.OfferingKey) {
			for _, k := range keys {
				if err := p.region.SetCapacity(region.Pool(k), 0); err != nil {
					t.Fatal(err)
				}
			}
		},
		Alive: func(*testing.T) []string {
			var out []string
			for _, i := range p.region.Instances() {
				if i.State == region.Pending || i.State == region.Running {
					out = append(out, i.ID)
				}
			}
			return out
		},
		Settle: func(*testing.T) { p.clock.Advance(10 * time.Minute) },
	}
}

// place is a fresh us-west-2 on virtual time behind its HTTP API, and the classes of a cluster: default, which is
// resolved, and raw, which is not.
type place struct {
	region  *region.Region
	clock   *clock.Virtual
	url     string
	classes map[string]*ec2v1.EC2NodeClass
}

func newPlace(t testing.TB) *place { return newPlaceWith(t, func(*region.Config) {}) }

func newPlaceWith(t testing.TB, change func(*region.Config)) *place {
	t.Helper()
	p := &place{
		clock:   clock.NewVirtual(time.Now()),
		classes: map[string]*ec2v1.EC2NodeClass{"default": class("default"), "raw": class("raw")},
	}
	config := region.Config{
		Name: "us-west-2", Dir: t.TempDir(), Seed: 1, Clock: p.clock, Discovery: "demo",
		Throttle: map[string]region.Bucket{}, // no limits: the tests do not wait for tokens on virtual time
	}
	change(&config)
	var err error
	p.region, err = region.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.region.Close() })
	server := httptest.NewServer(awsapi.New(p.region, awsapi.Options{}))
	t.Cleanup(server.Close)
	p.url = server.URL
	p.resolve(t, "default")
	return p
}

// connect returns a provider with empty caches.
func (p *place) connect(t testing.TB) *aws.Provider {
	t.Helper()
	return p.connectWith(t, func(*aws.Options) {})
}

func (p *place) connectWith(t testing.TB, change func(*aws.Options)) *aws.Provider {
	t.Helper()
	o := aws.Options{
		AWS: awssdk.Config{
			Region: "us-west-2", BaseEndpoint: &p.url,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		},
		ClusterName: "demo", ClusterEndpoint: "https://cluster", ClusterCA: []byte("CA"), ServiceCIDR: "10.100.0.0/16",
		KubernetesVersion: "1.36", Classes: func(ref cloud.ClassRef) *ec2v1.EC2NodeClass { return p.classes[ref.Name] },
	}
	change(&o)
	provider, err := aws.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// resolve makes a class ready.
func (p *place) resolve(t testing.TB, name string) {
	t.Helper()
	if err := p.connect(t).Resolve(t.Context(), p.classes[name]); err != nil {
		t.Fatal(err)
	}
	if ready := p.classes[name].StatusConditions().Root(); !ready.IsTrue() {
		t.Fatalf("class is not ready: %s", ready.Message)
	}
	// As the API server does: without a resource version the provider compares the class itself each time.
	p.classes[name].ResourceVersion = "1"
}

// class returns a class that selects the region's default resources.
func class(name string) *ec2v1.EC2NodeClass {
	c := &ec2v1.EC2NodeClass{}
	c.Name = name
	tags := map[string]string{"karpenter.sh/discovery": "demo"}
	c.Spec.SubnetSelectorTerms = []ec2v1.SubnetSelectorTerm{{Tags: tags}}
	c.Spec.SecurityGroupSelectorTerms = []ec2v1.SecurityGroupSelectorTerm{{Tags: tags}}
	c.Spec.AMISelectorTerms = []ec2v1.AMISelectorTerm{{Alias: "al2023@latest"}}
	c.Spec.Role = "nodeless-node"
	return c
}
