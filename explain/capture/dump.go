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

// Kinds of documents in a capture that are not objects of the cluster.
const (
	captureVersion = "nodeless.sh/v1alpha1"
	captureKind    = "Capture"
	offersKind     = "Offers"
	endKind        = "CaptureEnd"
)

// header is the first document of a capture and, with the number of objects, the last.
type header struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at,omitzero"`
	Kubernetes string    `json:"kubernetes,omitempty"` // version of the API server
	Region     string    `json:"region,omitempty"`
	Prices     string    `json:"prices,omitempty"` // their source
	Objects    int       `json:"objects,omitempty"`
	Gaps       []string  `json:"gaps,omitempty"` // what could not be read
}

// offers says what a node class offers, where that differs from the built-in catalogue.
type offers struct {
	APIVersion    string               `json:"apiVersion"`
	Kind          string               `json:"kind"`
	Class         cloud.ClassRef       `json:"class"`
	ResourceNames []string             `json:"resourceNames"`
	Types         []model.InstanceType `json:"types"`
}

// dump holds the offers of a dump, and the objects that only Get needs.
type dump struct {
	others  []client.Object
	offers  map[cloud.ClassRef][]model.InstanceType
	skipped map[string]int        // number of objects that no decision depends on, by kind
	kinds   map[reflect.Type]bool // that objects are of
	needs   map[reflect.Type]bool // that claims of its pods are judged by
	begun   *header
	ended   bool
	objects int
	bytes   int64 // of the objects, as written
}

// maxDump bounds the size of the objects kept from a dump. They take about as much memory.
const maxDump = 1 << 30

// Catalog implements Catalog.
func (d *dump) Catalog(_ context.Context, class cloud.ClassRef) ([]model.InstanceType, error) {
	if types, ok := d.offers[class]; ok {
		return types, nil
	}
	return nil, fmt.Errorf("the dump does not say what node class %s offers", class.Name)
}

func (d *dump) get(key client.ObjectKey, into client.Object) error {
	for _, o := range d.others {
		if client.ObjectKeyFromObject(o) == key && reflect.TypeOf(o) == reflect.TypeOf(into) {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: reflect.TypeOf(into).Elem().Name()}, key.String())
}

// Load makes a Cluster from a dump: the output of Capture, or of kubectl get -o yaml or -o json. The Cluster's time
// is that of the capture, or else that of its newest object. Load reads objects one at a time and skips those that no
// decision depends on. Errors name the line.
func Load(ctx context.Context, r io.Reader, name string, o Options) (*Cluster, error) {
	time0 := time.Unix(0, 0).UTC()
	v := clock.NewVirtual(time0)
	o.Clock = v
	if o.MaxDump == 0 {
		o.MaxDump = maxDump
	}
	c := newCluster(o)
	c.server, c.dumped = "dump "+name, &dump{
		offers: map[cloud.ClassRef][]model.InstanceType{}, skipped: map[string]int{}, kinds: map[reflect.Type]bool{},
		needs: map[reflect.Type]bool{},
	}
	var newest time.Time
	err := manifest.Each(bufio.NewReader(r), func(i manifest.Item) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		at, err := c.addItem(i)
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
	ignoreDevices(c)
	if len(c.dumped.offers) > 0 {
		c.catalog = c.dumped
	}
	c.offerAll(ctx)
	return c, nil
}

// whole returns an error if the dump was cut off or contains no relevant object.
func (d *dump) whole() error {
	switch {
	case d.begun != nil && !d.ended:
		return errors.New("the capture was not written to its end (kind: CaptureEnd is missing); capture again")
	case d.objects == 0:
		return fmt.Errorf("it contains nothing that decisions depend on (%s); want Nodes, Pods, NodePools, NodeClaims "+
			"and EC2NodeClasses: nodeless capture", d.text())
	}
	return nil
}

func (d *dump) text() string {
	if len(d.skipped) == 0 {
		return "no objects"
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(d.skipped)) {
		parts = append(parts, fmt.Sprintf("%d %s", d.skipped[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// Skipped says which objects of a dump were skipped because no decision depends on them; "" if there are none.
func (c *Cluster) Skipped() string {
	if c.dumped == nil || len(c.dumped.skipped) == 0 {
		return ""
	}
	return "skipped, because no decision depends on them: " + c.dumped.text()
}
