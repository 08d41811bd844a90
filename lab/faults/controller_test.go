package faults

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// agent is the user agent of the controller under test.
const agent = "nodeless"

var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	s.AddKnownTypes(karpenter, &karpv1.NodePool{}, &karpv1.NodePoolList{}, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(s, karpenter)
	amazon := schema.GroupVersion{Group: "karpenter.k8s.aws", Version: "v1"}
	s.AddKnownTypes(amazon, &ec2v1.EC2NodeClass{}, &ec2v1.EC2NodeClassList{})
	metav1.AddToGroupVersion(s, amazon)
	return s
})

// lives runs the controller, and runs it again whenever it dies, until the context is done.
func lives(ctx context.Context, t *testing.T, c *cluster, in *injector, log io.Writer) {
	for ctx.Err() == nil {
		life, die := context.WithCancel(ctx)
		in.begin(die)
		err := controller.Run(life, options(t, c, in, log))
		crashed := life.Err() != nil
		die()
		if ctx.Err() == nil && !crashed {
			in.note("the controller ended by itself: %v", err)
			time.Sleep(time.Second) // the delay before a restart
		}
	}
}

func options(t *testing.T, c *cluster, in *injector, log io.Writer) controller.Options {
	life := in.life()
	return through(t, c, &door{in: in, life: life, kind: kubernetesCall, next: c.api},
		&door{in: in, life: life, kind: awsCall, next: c}, log)
}

// through returns the options of a controller whose calls use these transports.
func through(t *testing.T, c *cluster, kube, amazon http.RoundTripper, log io.Writer) controller.Options {
	logger := slog.New(slog.NewTextHandler(log, nil))
	url := "http://127.0.0.1"
	return controller.Options{
		REST: c.api.Config(agent, kube), Log: logger,
		Clock: clock.Real{}, Unobserved: true, Gates: gates.Default(),
		OnDecision: func(d cycle.Decision) {
			for _, bad := range d.Bad {
				t.Errorf("a plan broke a promise: %s", bad)
			}
		},
		Provider: func(ctx context.Context, classes func(cloud.ClassRef) *ec2v1.EC2NodeClass,
			version string,
		) (cloud.Provider, error) {
			return aws.New(ctx, aws.Options{
				AWS: awssdk.Config{
					Region: regionName, BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
					HTTPClient: &http.Client{Transport: amazon},
				},
				ClusterName: clusterName, ClusterEndpoint: "https://10.0.0.1", ClusterCA: []byte("ca"), ServiceCIDR: "10.96.0.0/16",
				InterruptionQueue: clusterName, KubernetesVersion: version, Classes: classes, TypeLabels: c.labels,
				Log: logger,
			})
		},
	}
}
