package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/clock"
	"github.com/nodeless/nodeless/internal/kube"
	"github.com/nodeless/nodeless/internal/manifest"
)

// Kinds of a capture that are no objects of the cluster.
const (
	captureVersion = "nodeless.sh/v1alpha1"
	captureKind    = "Capture"
	offersKind     = "Offers"
	endKind        = "CaptureEnd"
)

// stamp is what a capture says of itself, or at its end of how much it holds.
type stamp struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at,omitzero"`
	Kubernetes string    `json:"kubernetes,omitempty"` // version of the API server
	Region     string    `json:"region,omitempty"`
	Prices     string    `json:"prices,omitempty"` // where they come from
	Objects    int       `json:"objects,omitempty"`
	Gaps       []string  `json:"gaps,omitempty"` // what could not be read
}

// offers are what a node class offers, where that is not what the built-in catalogue says.
type offers struct {
	APIVersion    string               `json:"apiVersion"`
	Kind          string               `json:"kind"`
	Class         cloud.ClassRef       `json:"class"`
	ResourceNames []string             `json:"resourceNames"`
	Types         []model.InstanceType `json:"types"`
}

// dumped is what of a dump is for Get, and the offers it came with.
type dumped struct {
	others  []client.Object
	offers  map[cloud.ClassRef][]model.InstanceType
	skipped map[string]int // objects that nothing depends on, by kind
	begun   *stamp
	ended   bool
	objects int
}

// Catalog is that of the dump.
func (d *dumped) Catalog(_ context.Context, class cloud.ClassRef) ([]model.InstanceType, error) {
	if types, ok := d.offers[class]; ok {
		return types, nil
	}
	return nil, fmt.Errorf("the dump does not say what node class %s offers", class.Name)
}

func (d *dumped) get(key client.ObjectKey, into client.Object) error {
	for _, o := range d.others {
		if client.ObjectKeyFromObject(o) == key && reflect.TypeOf(o) == reflect.TypeOf(into) {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: reflect.TypeOf(into).Elem().Name()}, key.String())
}

// Load makes a Cluster of a dump: what Capture wrote, or what kubectl get -o yaml or -o json did. Its time is the capture's, else that of
// its newest object. Objects are read one by one; what decides nothing is left out at once. The error names the line.
func Load(ctx context.Context, r io.Reader, name string, o Options) (*Cluster, error) {
	time0 := time.Unix(0, 0).UTC()
	v := clock.NewVirtual(time0)
	o.Clock = v
	c := newCluster(o)
	c.server, c.dumped = "dump "+name, &dumped{offers: map[cloud.ClassRef][]model.InstanceType{}, skipped: map[string]int{}}
	var newest time.Time
	err := manifest.Each(bufio.NewReader(r), func(i manifest.Item) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		at, err := c.take(i)
		if at.After(newest) {
			newest = at
		}
		return err
	})
	if err == nil {
		err = c.dumped.whole()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	v.Advance(newest.Sub(time0))
	if len(c.dumped.offers) > 0 {
		c.catalog = c.dumped
	}
	c.offerAll(ctx)
	return c, nil
}

// whole reports what is missing of a dump.
func (d *dumped) whole() error {
	switch {
	case d.begun != nil && !d.ended:
		return errors.New("the capture was not written to its end (kind: CaptureEnd is missing); capture again")
	case d.objects == 0:
		return fmt.Errorf("there is nothing in it that decides anything (%s); want Nodes, Pods, NodePools, NodeClaims and EC2NodeClasses: nodeless capture", d.text())
	}
	return nil
}

func (d *dumped) text() string {
	if len(d.skipped) == 0 {
		return "no objects"
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(d.skipped)) {
		parts = append(parts, fmt.Sprintf("%d %s", d.skipped[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// Skipped says, in words, what of a dump was passed over since nothing depends on it; "" if there is none.
func (c *Cluster) Skipped() string {
	if c.dumped == nil || len(c.dumped.skipped) == 0 {
		return ""
	}
	return "passed over, since no decision depends on it: " + c.dumped.text()
}

// take takes in one object of a dump, and gives the latest time that it tells.
func (c *Cluster) take(i manifest.Item) (time.Time, error) {
	n, err := i.Name()
	if err != nil {
		return time.Time{}, err
	}
	if c.dumped.ended {
		return time.Time{}, fmt.Errorf("line %d: %s stands below the end of the capture; keep captures in files of their own", i.Line, n)
	}
	if n.APIVersion == captureVersion && (n.Kind == captureKind || n.Kind == endKind || n.Kind == offersKind) {
		return c.takeOwn(i, n)
	}
	o, err := i.Object()
	switch {
	case errors.Is(err, manifest.ErrUnknownKind):
		c.dumped.skipped[n.Kind]++
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	case o.GetName() == "":
		return time.Time{}, fmt.Errorf("line %d: %s without metadata.name", i.Line, n.Kind)
	}
	c.dumped.objects++
	if _, err := kube.LeanPod(o); err != nil {
		return time.Time{}, fmt.Errorf("line %d: %w", i.Line, err)
	}
	o.SetManagedFields(nil)
	switch {
	case decides(o):
		c.update(o)
	case capturedToo(o):
		c.dumped.others = append(c.dumped.others, o)
	default:
		c.dumped.objects--
		c.dumped.skipped[n.Kind]++
		return time.Time{}, nil
	}
	return newestOf(o), nil
}

// takeOwn takes in what a capture says of itself.
func (c *Cluster) takeOwn(i manifest.Item, n manifest.Named) (time.Time, error) {
	d := c.dumped
	if n.Kind == offersKind {
		var f offers
		if err := json.Unmarshal(i.JSON, &f); err != nil {
			return time.Time{}, fmt.Errorf("line %d: Offers: %w", i.Line, err)
		}
		d.offers[f.Class] = c.renamed(f)
		return time.Time{}, nil
	}
	var s stamp
	if err := json.Unmarshal(i.JSON, &s); err != nil {
		return time.Time{}, fmt.Errorf("line %d: %s: %w", i.Line, n.Kind, err)
	}
	if n.Kind == endKind {
		if d.ended = true; d.begun == nil || s.Objects != d.objects {
			return time.Time{}, fmt.Errorf("line %d: the capture says that it holds %d objects, and there are %d; capture again", i.Line, s.Objects, d.objects)
		}
		return time.Time{}, nil
	}
	d.begun, c.version = &s, s.Kubernetes
	if c.o.Region == "" {
		c.o.Region = s.Region
	}
	c.o.Prices = s.Prices
	for _, gap := range s.Gaps {
		c.gaps = append(c.gaps, errors.New(gap))
	}
	return s.At, nil
}

// renamed gives amounts of resources the places that they have in this process.
func (c *Cluster) renamed(f offers) []model.InstanceType {
	move := func(r *model.Resources) {
		var out model.Resources
		for i, name := range f.ResourceNames {
			if to, ok := c.World.Names().Index(name); ok && i < len(r) {
				out[to] = r[i]
			}
		}
		*r = out
	}
	for i := range f.Types {
		move(&f.Types[i].Capacity)
		move(&f.Types[i].Allocatable)
	}
	return f.Types
}

// newestOf is the latest time that an object tells: a dump is no older.
func newestOf(o client.Object) time.Time {
	at := o.GetCreationTimestamp().Time
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	switch o := o.(type) {
	case *corev1.Node:
		for _, x := range o.Status.Conditions {
			later(x.LastTransitionTime.Time)
			later(x.LastHeartbeatTime.Time)
		}
	case *corev1.Pod:
		for _, x := range o.Status.Conditions {
			later(x.LastTransitionTime.Time)
		}
	case *karpv1.NodeClaim:
		later(o.Status.LastPodEventTime.Time)
		for _, x := range o.Status.Conditions {
			later(x.LastTransitionTime.Time)
		}
	}
	return at
}
