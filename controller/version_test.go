package controller

import (
	"context"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/status"
)

// apiServer is an API server of a version of Kubernetes 1.
type apiServer struct{ minor string }

func (s *apiServer) ServerVersion() (*version.Info, error) {
	return &version.Info{Major: "1", Minor: s.minor}, nil
}

// follower is a cloud that follows the version of the API server.
type follower struct {
	cloud.Provider
	read func() (string, error)
}

func (f *follower) FollowVersion(read func() (string, error)) { f.read = read }

func TestTheCloudLearnsThatTheAPIServerWasUpgraded(t *testing.T) {
	server, f := &apiServer{"36"}, &follower{}
	o := Options{Provider: func(context.Context, func(cloud.ClassRef) *ec2v1.EC2NodeClass, string) (cloud.Provider, error) {
		return f, nil
	}}
	if _, err := (&components{}).newProvider(t.Context(), o, &status.Classes{}, "1.36", server); err != nil {
		t.Fatal(err)
	}
	server.minor = "37+" // as EKS writes it
	if got, err := f.read(); err != nil || got != "1.37" {
		t.Errorf("the cloud reads version %q, %v", got, err)
	}
}
