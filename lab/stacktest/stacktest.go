// Package stacktest supports tests of the whole system: the shared control plane of planetest, a simulated region
// behind AWS's wire protocol, simulated instances that register as nodes and run pods, and as many controllers as a
// test needs.
package stacktest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/examples"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
	"github.com/nodeless/nodeless/region/nodesim"
	"github.com/nodeless/nodeless/region/nodesim/regional"
)

const (
	regionName = "us-west-2"
	cluster    = "nodeless"
)

// Stack is a cluster with a simulated region.
type Stack struct {
	Plane  *plane.Plane
	Region *region.Region
	URL    string        // of the region's endpoint
	Client client.Client // reads from the API server, without a cache

	own *catalog.Own
	log *slog.Logger
}

// Start returns a Stack with the NodePool general-purpose of the examples. Everything is removed at the end of the
// test.
func Start(t testing.TB) *Stack {
	t.Helper()
	s := start(t, nil)
	s.install(t)
	return s
}

// StartWith returns a Stack without a NodePool whose region offers custom types, with their labels. Everything is
// removed at the end of the test.
func StartWith(t testing.TB, own *catalog.Own) *Stack {
	t.Helper()
	s := start(t, own)
	t.Cleanup(func() { s.clear(t) })
	return s
}

func start(t testing.TB, own *catalog.Own) *Stack {
	s := &Stack{Plane: planetest.Start(t), own: own, log: slog.New(slog.DiscardHandler)}
	var err error
	if s.Client, err = client.New(s.Plane.RESTConfig(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	var offers *catalog.Region
	if own != nil {
		if offers, err = own.Region(); err != nil {
			t.Fatal(err)
		}
	}
	s.Region, err = region.Open(region.Config{
		Name: regionName, Offers: offers, Dir: t.TempDir(), Seed: 1, Clock: clock.Real{},
		Boot: region.BootTime{Median: 100 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Region.Close() })
	err = s.Region.SetCluster(region.ClusterInfo{
		Name: cluster, Version: "1.36", Endpoint: s.Plane.APIServerURL(), CA: string(s.Plane.CABundle()),
		ServiceCIDR: s.Plane.ServiceCIDR(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t)
	s.background(t, "node simulator", func(ctx context.Context) error {
		return nodesim.Run(ctx, nodesim.Options{
			REST: s.Plane.RESTConfig(), Instances: regional.Instances(s.Region),
			Clock: clock.Real{}, Log: s.log,
		})
	})
	return s
}

// background runs a component until the end of the test.
func (s *Stack) background(t testing.TB, what string, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the %s ended with %v", what, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (s *Stack) serve(t testing.TB) {
	listening := make(chan net.Addr, 1)
	s.background(t, "region", func(ctx context.Context) error {
		return awsapi.Serve(ctx, "127.0.0.1:0", s.Region, awsapi.Options{Log: s.log}, func(a net.Addr) { listening <- a })
	})
	select {
	case a := <-listening:
		s.URL = "http://" + a.String()
	case <-time.After(time.Minute):
		t.Fatal("the region does not listen")
	}
}

// install creates the pool and class of the examples, and removes them and all nodes at the end of the test.
func (s *Stack) install(t testing.TB) {
	file, err := examples.FS.Open("general-purpose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := s.Client.Create(context.Background(), object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { s.clear(t) })
}

// clear deletes the remaining objects in spite of finalizers: the controllers have stopped.
func (s *Stack) clear(t testing.TB) {
	planetest.Eventually(t, "the stack's objects are gone", func(ctx context.Context) error {
		left := errors.New("some are left")
		none := true
		for _, kind := range []schema.GroupVersionKind{
			{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
			{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
			{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
			corev1.SchemeGroupVersion.WithKind("Node"),
		} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			if err := s.Client.List(ctx, list); err != nil {
				return err
			}
			for i := range list.Items {
				none = false
				o := &list.Items[i]
				o.SetFinalizers(nil)
				_ = s.Client.Update(ctx, o)
				_ = s.Client.Delete(ctx, o)
			}
		}
		// It takes a minute until pods of deleted nodes are removed, and the next stack's nodes have the same names.
		var pods corev1.PodList
		if err := s.Client.List(ctx, &pods); err != nil {
			return err
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName != "" {
				none = false
				_ = s.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
			}
		}
		if none {
			return nil
		}
		return left
	})
}

// Replica is one running controller.
type Replica struct {
	Leads chan struct{} // closed when it may act
	Stop  func()        // stops it, as SIGTERM does, and waits until it has ended
}

// Controller runs a controller until it is stopped or the test ends. change, if not nil, changes its options.
func (s *Stack) Controller(t testing.TB, change func(*controller.Options)) *Replica {
	r := &Replica{Leads: make(chan struct{})}
	ready := sync.OnceFunc(func() { close(r.Leads) })
	o := controller.Options{
		REST: s.Plane.RESTConfig(), Log: s.log, Clock: clock.Real{}, OnReady: ready, Provider: s.provider,
	}
	if change != nil {
		change(&o)
	}
	r.Stop = s.background(t, "controller", func(ctx context.Context) error {
		defer ready() // a test that waits for it goes on, and fails, if it ends early
		return controller.Run(ctx, o)
	})
	return r
}

// provider returns a provider that reaches the region over the wire, as `nodeless run` does.
func (s *Stack) provider(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
	version string,
) (cloud.Provider, error) {
	o := aws.Options{
		AWS: awssdk.Config{
			Region: regionName, BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		},
		ClusterName: cluster, ClusterEndpoint: s.Plane.APIServerURL(), ClusterCA: s.Plane.CABundle(),
		ServiceCIDR:       s.Plane.ServiceCIDR(),
		InterruptionQueue: cluster, KubernetesVersion: version, Classes: classes, Log: s.log,
	}
	if s.own != nil {
		o.TypeLabels = s.own.Labels
	}
	return aws.New(ctx, o)
}
