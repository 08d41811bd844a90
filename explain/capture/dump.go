package capture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/manifest"
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
	bytes   int64 // of the objects, as they were written
}

// mostDump is how much of a dump is taken in: what is kept of it takes about as much memory.
const mostDump = 1 << 30

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

// Load makes a Cluster of a dump: what Capture wrote, or what kubectl get -o yaml or -o json did. Its time is the
// capture's, else that of its newest object. Objects are read one by one; what decides nothing is left out at once.
// The error names the line.
func Load(ctx context.Context, r io.Reader, name string, o Options) (*Cluster, error) {
	time0 := time.Unix(0, 0).UTC()
	v := clock.NewVirtual(time0)
	o.Clock = v
	if o.MostDump == 0 {
		o.MostDump = mostDump
	}
	c := newCluster(o)
	c.server, c.dumped = "dump "+name,
		&dumped{offers: map[cloud.ClassRef][]model.InstanceType{}, skipped: map[string]int{}}
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
