package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/manifest"
)

// addItem adds an object of a dump and returns the latest time in it.
func (c *Cluster) addItem(i manifest.Item) (time.Time, error) {
	n, err := i.Name()
	if err != nil {
		return time.Time{}, err
	}
	if c.dumped.ended {
		return time.Time{}, fmt.Errorf(
			"line %d: %s stands below the end of the capture; keep captures in files of their own", i.Line, n)
	}
	if n.APIVersion == captureVersion && (n.Kind == captureKind || n.Kind == endKind || n.Kind == offersKind) {
		return c.addHeader(i, n)
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
	if c.dumped.bytes += int64(len(i.JSON)); c.dumped.bytes > c.o.MaxDump {
		return time.Time{}, fmt.Errorf(
			"line %d: there are more than %d MiB of objects that decisions depend on, %d of them; "+
				"nodeless capture writes what is needed alone, which is a small part of it", i.Line, c.o.MaxDump>>20,
			c.dumped.objects)
	}
	if _, err := translate.LeanPod(o); err != nil {
		return time.Time{}, fmt.Errorf("line %d: %w", i.Line, err)
	}
	o.SetManagedFields(nil)
	if _, pod := o.(*corev1.Pod); pod { // pods are many: keep only what a capture holds
		o = Redact(o)
	}
	switch {
	case decides(o):
		c.dumped.note(o)
		c.update(o)
	case capturedToo(o):
		c.dumped.others = append(c.dumped.others, o)
	case ofKinds(o, formerKinds): // counted by the end of the capture
	default:
		c.dumped.objects--
		c.dumped.skipped[n.Kind]++
		return time.Time{}, nil
	}
	return latestTime(o), nil
}

// addHeader reads a document that describes the capture itself.
func (c *Cluster) addHeader(i manifest.Item, n manifest.Named) (time.Time, error) {
	d := c.dumped
	if n.Kind == offersKind {
		var f offers
		if err := json.Unmarshal(i.JSON, &f); err != nil {
			return time.Time{}, fmt.Errorf("line %d: Offers: %w", i.Line, err)
		}
		d.offers[f.Class] = c.resourcesRenumbered(f)
		return time.Time{}, nil
	}
	var s header
	if err := json.Unmarshal(i.JSON, &s); err != nil {
		return time.Time{}, fmt.Errorf("line %d: %s: %w", i.Line, n.Kind, err)
	}
	if n.Kind == endKind {
		if d.ended = true; d.begun == nil || s.Objects != d.objects {
			return time.Time{}, fmt.Errorf(
				"line %d: the capture says that it holds %d objects, and there are %d; capture again", i.Line, s.Objects, d.objects)
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

// resourcesRenumbered maps the dump's resource indexes to those of this process.
func (c *Cluster) resourcesRenumbered(f offers) []model.InstanceType {
	move := func(r *model.Resources) {
		var out model.Resources
		for i, name := range f.ResourceNames {
			if to, ok := c.State.Names().Index(name); ok && i < len(r) {
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

// latestTime returns the latest time in an object: the dump cannot be older.
func latestTime(o client.Object) time.Time {
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
