package capture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
)

// ofKinds reports whether an object is of one of the kinds.
func ofKinds(o client.Object, kinds []kind) bool {
	for i := range kinds {
		if reflect.TypeOf(kinds[i].object) == reflect.TypeOf(o) {
			return true
		}
	}
	return false
}

// decides reports whether decisions depend on objects of the kind.
func decides(o client.Object) bool { return ofKinds(o, kinds) }

func capturedToo(o client.Object) bool { return ofKinds(o, extraKinds) }

// Capture writes a cluster as a dump for Load: every object that decisions depend on, without anything that may be
// secret (see Redact). It returns the number of objects.
func Capture(ctx context.Context, cfg *rest.Config, o Options, w io.Writer) (int, error) {
	o.Keep = true
	c, err := Read(ctx, cfg, o)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w)
	begin := header{
		APIVersion: captureVersion, Kind: captureKind, At: c.Snapshot().Now.UTC(), Kubernetes: c.version,
		Prices: c.Prices(),
	}
	// Redact and Load do not know the kinds that default topology spread constraints need.
	extra := slices.DeleteFunc(c.Objects(), func(o client.Object) bool { return !decides(o) })
	for _, k := range extraKinds {
		err := c.readKind(ctx, k, page, func(o client.Object) { extra = append(extra, o) })
		if isLack := new(*MissingKind); err != nil && !asMissingKind(err, isLack) {
			return 0, err
		} else if err != nil {
			c.gaps = append(c.gaps, err)
		}
	}
	for _, gap := range c.Gaps() {
		begin.Gaps = append(begin.Gaps, gap.Error())
	}
	if len(c.regions) == 1 {
		for region := range c.regions {
			begin.Region = region
		}
	}
	if err := document(out, begin); err != nil {
		return 0, err
	}
	if c.catalog != nil {
		if err := c.writeOffers(ctx, out); err != nil {
			return 0, err
		}
	}
	for _, o := range extra {
		if err := writeObject(out, o); err != nil {
			return 0, err
		}
	}
	if err := document(out, header{APIVersion: captureVersion, Kind: endKind, Objects: len(extra)}); err != nil {
		return 0, err
	}
	return len(extra), out.Flush()
}

// writeOffers writes what the pools' node classes offer. Load uses it instead of the built-in catalogue.
func (c *Cluster) writeOffers(ctx context.Context, w io.Writer) error {
	seen := map[cloud.ClassRef]bool{}
	for _, np := range c.State.NodePools() {
		ref := cluster.ClassRef(np.Spec.Template.Spec.NodeClassRef)
		types, _, err := c.offered(ctx, ref)
		if seen[ref] || err != nil {
			continue // Load reports why this class offers nothing
		}
		seen[ref] = true
		text, err := json.Marshal(offers{captureVersion, offersKind, ref, c.State.Names().List(), types})
		if err != nil {
			return fmt.Errorf("write what class %s offers: %w", ref.Name, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

func writeObject(w io.Writer, o client.Object) error {
	kind, err := apiutil.GVKForObject(o, scheme.Scheme)
	if err != nil {
		return err
	}
	o = Redact(o)
	o.GetObjectKind().SetGroupVersionKind(kind)
	return document(w, o)
}

// document writes a YAML document, without empty fields that Go cannot omit.
func document(w io.Writer, v any) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	bare := strings.NewReplacer("  creationTimestamp: null\n", "", "status: {}\n", "", "  resources: {}\n",
		"  resources: {}\n").Replace(string(text))
	if _, err := fmt.Fprintf(w, "---\n%s", bare); err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	return nil
}
