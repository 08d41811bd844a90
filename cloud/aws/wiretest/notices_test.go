package wiretest

import (
	"fmt"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/region"
)

// hearing returns a provider that reads the region's interruption queue.
func (p *place) hearing(t *testing.T) *aws.Provider {
	t.Helper()
	if err := p.region.SetCluster(region.ClusterInfo{Name: "demo", Version: "1.36"}); err != nil {
		t.Fatal(err)
	}
	provider, err := aws.New(t.Context(), aws.Options{
		AWS: awssdk.Config{
			Region: "us-west-2", BaseEndpoint: &p.url,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		},
		ClusterName: "demo", ClusterEndpoint: "https://cluster", ServiceCIDR: "10.100.0.0/16", KubernetesVersion: "1.36",
		InterruptionQueue: "demo",
		Clock:             p.clock,
		Classes:           func(ref cloud.ClassRef) *ec2v1.EC2NodeClass { return p.classes[ref.Name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// A notice behind a thousand irrelevant messages is returned by the first call, and all of them are deleted in few
// calls.
func TestANoticeIsNotHeldUpByAThousandOthers(t *testing.T) {
	p := newPlace(t)
	provider := p.hearing(t)
	send := func(body string) {
		if _, err := p.region.SendMessage("demo", body); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 500 {
		send(fmt.Sprintf(`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-%d","state":"running"}}`, i))
		send("this is not JSON")
	}
	send(`{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{"instance-id":"i-0123","instance-action":"terminate"}}`)
	var kinds map[cloud.InterruptionKind]int
	calls := p.callsOf(func() {
		kinds = map[cloud.InterruptionKind]int{}
		for kinds[cloud.SpotInterruption] == 0 {
			notices, err := provider.Interruptions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range notices {
				kinds[n.Kind]++
			}
			if err := provider.Done(t.Context(), notices...); err != nil {
				t.Fatal(err)
			}
		}
	})
	if kinds[cloud.NoOp] != 500 || kinds[cloud.Malformed] != 500 {
		t.Errorf("heard %v", kinds)
	}
	if waiting, err := p.region.Queue("demo"); waiting != 0 || err != nil {
		t.Errorf("%d messages are left, %v", waiting, err)
	}
	if len(calls) > 250 {
		t.Errorf("%d calls for 1,001 messages", len(calls))
	}
}

// An instance that fails EC2's status checks is reported after two minutes; planned maintenance at once.
func TestAilingInstancesAreFound(t *testing.T) {
	p := newPlace(t)
	provider := p.hearing(t)
	var ids []string
	for _, claim := range []string{"sound", "failing", "hostless", "retired"} {
		got, err := provider.Launch(t.Context(), pinned(claim, "general"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.Instance.ID)
	}
	p.clock.Advance(10 * time.Second) // they run: EC2 reports no status of other instances
	for i, check := range []string{"instance", "system", "instance-retirement"} {
		if err := p.region.Impair(ids[i+1], check, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	want := func(kinds map[string]cloud.InterruptionKind) {
		t.Helper()
		got, err := provider.Unhealthy(t.Context())
		if err != nil || len(got) != len(kinds) {
			t.Fatalf("ailing are %+v, %v, want %v", got, err, kinds)
		}
		for _, n := range got {
			if kinds[n.InstanceIDs[0]] != n.Kind {
				t.Errorf("%v: %s, want %v", n.InstanceIDs, n.Kind, kinds)
			}
		}
	}
	want(map[string]cloud.InterruptionKind{ids[3]: cloud.MaintenanceDue})
	p.clock.Advance(time.Minute)
	want(map[string]cloud.InterruptionKind{
		ids[1]: cloud.InstanceFailed, ids[2]: cloud.SystemFailed,
		ids[3]: cloud.MaintenanceDue,
	})
}
