package run

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/controller/admission"
)

func TestWhereTheWebhookOfFargateProfilesIs(t *testing.T) {
	for _, args := range [][]string{
		{"--fargate-webhook=http://192.0.2.1"},
		{"--fargate-webhook=192.0.2.1"},
		{"--fargate-webhook=https://192.0.2.1", "--fargate-webhook-port=0"},
	} {
		if _, _, err := parsed(args...); err == nil || !strings.Contains(err.Error(), "--fargate-webhook") {
			t.Errorf("%v: got %v, want an error that names the flag", args, err)
		}
	}
	if _, _, err := parsed("--fargate-webhook=https://nodeless.kube-system.svc"); err != nil {
		t.Error(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, _, err := admission.Listen(context.Background(), taken.Addr().String(), ""); err == nil ||
		!strings.Contains(err.Error(), "webhook of FargateProfiles") {
		t.Errorf("got %v", err)
	}
	_, f, err := admission.Listen(context.Background(), "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// The chart's roles let the controller keep certificates in its own namespace. The lease may be in Karpenter's.
func TestTheWebhooksCertificatesAreInTheControllersOwnNamespace(t *testing.T) {
	s, o, err := parsed("--fargate-webhook=https://nodeless.nodeless-system.svc", "--system-namespace=nodeless-system",
		"--leader-election-namespace=karpenter", "--karpenter-service=nodeless")
	if err != nil {
		t.Fatal(err)
	}
	s.fargatePort = 0 // any
	f, err := s.fargate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Listener.Close()
	if f.Namespace != "nodeless-system" || o.LeaderNamespace != "karpenter" ||
		o.Service.String() != "nodeless-system/nodeless" {
		t.Errorf("certificates in %s, lease in %s, Service %s", f.Namespace, o.LeaderNamespace, o.Service)
	}
}
