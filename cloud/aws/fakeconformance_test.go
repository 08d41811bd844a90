package aws

import (
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/cloudtest"
	"github.com/nodeless/nodeless/engine/model"
)

// The conformance suite against the account in memory, which is exact and fast: a failure here is the provider's
// fault.
func TestConformanceInMemory(t *testing.T) {
	cloudtest.Run(t, cloudtest.Harness{Start: func(t *testing.T) cloudtest.Cloud {
		a := newAccount()
		classes := map[string]*ec2v1.EC2NodeClass{"default": newClass("default"), "raw": newClass("raw")}
		resolve(t, connect(t, a.config(), classes), classes["default"])
		named := func(name string) cloud.ClassRef {
			return cloud.ClassRef{Group: classRef.Group, Kind: classRef.Kind, Name: name}
		}
		return cloudtest.Cloud{
			Connect: func(t *testing.T) cloud.Provider { return connect(t, a.config(), classes) },
			Ready:   named("default"), NotReady: named("raw"), Missing: named("nowhere"),
			Exhaust: func(_ *testing.T, keys ...model.OfferingKey) {
				a.mu.Lock()
				defer a.mu.Unlock()
				for _, k := range keys {
					a.empty[k] = true
				}
			},
			Alive:  func(*testing.T) []string { return a.alive() },
			Settle: func(*testing.T) { a.settle() },
		}
	}})
}

func (a *fakeAccount) alive() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, i := range a.instances {
		if i.State.Name == ec2types.InstanceStateNamePending {
			out = append(out, *i.InstanceId)
		}
	}
	return out
}

func (a *fakeAccount) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range a.instances {
		if i.State.Name == ec2types.InstanceStateNameShuttingDown {
			i.State = &ec2types.InstanceState{Name: ec2types.InstanceStateNameTerminated}
		}
	}
}
