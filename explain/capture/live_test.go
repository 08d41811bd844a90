package capture_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/examples"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/plane"
	"github.com/nodeless/nodeless/plane/planetest"
)

const viewer = "jane@example.com"

// place is a control plane on which no controller has ever run.
type place struct {
	plane *plane.Plane
	admin client.Client
}

// as returns a configuration that impersonates the user.
func (p *place) as(user string) *rest.Config {
	cfg := rest.CopyConfig(p.plane.RESTConfig())
	cfg.Impersonate.UserName = user
	return cfg
}

// One control plane, first bare, and finally with a NodePool that no controller reconciles.
func TestAnyClusterCanBeRead(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane; -short skips it")
	}
	p := &place{}
	var err error
	if p.plane, err = plane.Start(t.Context(), plane.Options{DataDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.plane.Stop(ctx)
	})
	if p.admin, err = client.New(p.plane.RESTConfig(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Run("that does not answer, or not to us", p.strangers)
	t.Run("without the kinds of Karpenter", p.bare)
	if err := crds.Install(t.Context(), p.plane.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	t.Run("by whom it lets", p.rights)
	t.Run("where no controller ever ran", p.untouched)
	t.Run("and watched", p.watched)
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func (p *place) strangers(t *testing.T) {
	gone := rest.CopyConfig(p.plane.RESTConfig())
	gone.Host = "https://127.0.0.1:1"
	_, err := capture.Read(t.Context(), gone, capture.Options{})
	wantError(t, err, "https://127.0.0.1:1", "cannot be reached")

	expired := &rest.Config{Host: p.plane.RESTConfig().Host, BearerToken: "expired"}
	expired.CAData, expired.CAFile = p.plane.RESTConfig().CAData, p.plane.RESTConfig().CAFile
	_, err = capture.Read(t.Context(), expired, capture.Options{})
	wantError(t, err, "does not accept the credentials", "log in again")

	stale := &rest.Config{Host: p.plane.RESTConfig().Host, BearerToken: "any"}
	_, err = capture.Read(t.Context(), stale, capture.Options{})
	wantError(t, err, "stale")
}

func (p *place) bare(t *testing.T) {
	_, err := capture.Read(t.Context(), p.plane.RESTConfig(), capture.Options{})
	wantError(t, err, "nodeless crds")
	c, err := capture.Read(t.Context(), p.plane.RESTConfig(), capture.Options{Partial: true})
	if err != nil {
		t.Fatal(err)
	}
	if gaps := c.Gaps(); len(gaps) != 3 || len(c.Snapshot().Pools) != 0 {
		t.Errorf("gaps %v, %d pools", gaps, len(c.Snapshot().Pools))
	}
}

func (p *place) rights(t *testing.T) {
	_, err := capture.Read(t.Context(), p.as(viewer), capture.Options{})
	wantError(t, err, "not allowed to list", "in the whole cluster", "nodeless rbac --view")
	var lacks *capture.MissingKind
	if !errors.As(err, &lacks) || lacks.Verb != "list" || lacks.Kind == "" || lacks.NotServed {
		t.Errorf("%+v", lacks)
	}
	for _, o := range rbac.ViewObjects(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: viewer}) {
		if err := p.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	planetest.Eventually(t, "the viewer may look", func(ctx context.Context) error {
		_, err := capture.Read(ctx, p.as(viewer), capture.Options{})
		return err
	})
	node := &corev1.Node{}
	node.Name = "written"
	viewing, err := client.New(p.as(viewer), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := viewing.Create(t.Context(), node); err == nil {
		t.Error("who may only look made a Node")
	}
}

// create applies the example NodePool and class.
func (p *place) create(t *testing.T) {
	t.Helper()
	file, err := examples.FS.Open("general-purpose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for range 2 {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); err != nil {
			t.Fatal(err)
		}
		if err := p.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *place) untouched(t *testing.T) {
	p.create(t)
	c, err := capture.Read(t.Context(), p.as(viewer), capture.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if why := c.Snapshot().Pools[0].NotReady; !strings.Contains(why, "--region") {
		t.Errorf("a cluster that does not say where it is: %q", why)
	}
	c, err = capture.Read(t.Context(), p.as(viewer), capture.Options{DefaultRegion: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Snapshot()
	if len(s.Pools) != 1 || s.Pools[0].NotReady != "" || len(s.Pools[0].Types) < 500 {
		t.Fatalf("%d pools", len(s.Pools))
	}
	if notes := c.Assumed(); len(notes) != 1 || !strings.Contains(notes[0], "us-west-2") ||
		!strings.Contains(c.Prices(), "us-west-2") {
		t.Errorf("assumed %v, prices %q", notes, c.Prices())
	}
	if found := check.Answered(s, engine.Provision(s, model.Policy{})); len(found) > 0 {
		t.Error(found)
	}
}

func (p *place) watched(t *testing.T) {
	c, err := capture.Open(t.Context(), p.as(viewer), capture.Options{Region: "us-west-2"})
	if err != nil {
		t.Fatal(err)
	}
	before := c.Snapshot()
	if len(before.Pools) != 1 || len(before.Pools[0].Types) < 500 {
		t.Fatalf("pools: %+v", before.Pools)
	}
	ns := planetest.Namespace(t, p.plane)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = ns, "web"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	if err := p.admin.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the pod is seen, and a change is told of", func(context.Context) error {
		select {
		case <-c.Changed():
		default:
			return errors.New("no change")
		}
		if len(c.Snapshot().Pending) != 1 {
			return errors.New("no pod")
		}
		return nil
	})
	if plan := engine.Provision(c.Snapshot(), model.Policy{}); len(plan.Launches) != 1 {
		t.Errorf("the plan for one pod is %+v", plan)
	}
	if err := p.admin.Delete(t.Context(),
		&ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, "the class is missed", func(context.Context) error {
		if why := c.Snapshot().Pools[0].NotReady; !strings.Contains(why, "does not exist") {
			return errors.New(why)
		}
		return nil
	})
}
