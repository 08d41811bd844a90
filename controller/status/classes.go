package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
)

// Group and kind of the classes that are always supported.
const (
	classGroup = "karpenter.k8s.aws"
	classKind  = "EC2NodeClass"
)

// Classes reads node classes from the cache, or as they were just written, if that is newer.
type Classes struct {
	ctx     context.Context
	reader  client.Reader
	wrote   mutationcache.Cache[client.Object]
	handles map[schema.GroupKind]handle
}

// NewClasses returns Classes for EC2NodeClasses and further kinds. Reads wait until the cache is filled or ctx is
// done: event handlers read classes, and a cache stops only after its handlers have returned.
func NewClasses(ctx context.Context, reader client.Reader, further ...Kind) *Classes {
	c := &Classes{ctx: ctx, reader: reader, handles: map[schema.GroupKind]handle{{
		Group: classGroup,
		Kind:  classKind,
	}: ec2Kind{}}}
	for _, k := range further {
		c.handles[k.GroupKind()] = &foreignKind{Kind: k, found: map[types.UID]finding{}}
	}
	return c
}

// Kinds returns the kinds of node classes of all NodePools and NodeClaims that this controller manages. The claims of
// microVMs refer to a FargateProfile.
func (c *Classes) Kinds() []schema.GroupKind {
	return append(slices.Collect(maps.Keys(c.handles)),
		schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "FargateProfile"})
}

// Get returns the EC2NodeClass that a class is or stands for; nil if there is none, or the cache does not know it
// yet. It must not be modified. If it stands for another kind, its type has that kind.
func (c *Classes) Get(ref cloud.ClassRef) *ec2v1.EC2NodeClass {
	h := c.handle(ref)
	if h == nil {
		return nil
	}
	object := c.object(ref)
	if object == nil {
		return nil
	}
	return h.view(object)
}

// Refresh reads a class from the API server itself, so that Get then returns what was written before. If that fails,
// the cache has to do.
func (c *Classes) Refresh(ctx context.Context, api client.Reader, ref cloud.ClassRef) {
	h := c.handle(ref)
	if h == nil {
		return
	}
	o := h.empty()
	if err := api.Get(ctx, client.ObjectKey{Name: ref.Name}, o); err == nil {
		c.wrote.Mutated(o)
	}
}

// handle returns the handle of a reference's kind; nil if the kind is unknown.
func (c *Classes) handle(ref cloud.ClassRef) handle {
	return c.handles[schema.GroupKind{Group: ref.Group, Kind: ref.Kind}]
}

// object returns the object itself, of a known kind; nil if there is none.
func (c *Classes) object(ref cloud.ClassRef) client.Object {
	o := c.handle(ref).empty()
	if err := c.reader.Get(c.ctx, client.ObjectKey{Name: ref.Name}, o); err != nil {
		return nil
	}
	return c.wrote.Newest(o)
}

// unknown returns the message for a reference to an unknown kind.
func (c *Classes) unknown(ref cloud.ClassRef) string {
	var known []string
	for k := range c.handles {
		known = append(known, fmt.Sprintf("%s of group %q", k.Kind, k.Group))
	}
	slices.Sort(known)
	return fmt.Sprintf("spec.template.spec.nodeClassRef: %s of group %q is not known; use %s", ref.Kind, ref.Group,
		strings.Join(known, " or "))
}

// title names a class in messages.
func title(ref cloud.ClassRef) string { return fmt.Sprintf("%s %q", ref.Kind, ref.Name) }

// keyOf and refOf convert a reference to a queue key and back.
func keyOf(ref cloud.ClassRef) string { return ref.Group + "/" + ref.Kind + "/" + ref.Name }

func refOf(key string) cloud.ClassRef {
	parts := strings.SplitN(key, "/", 3)
	return cloud.ClassRef{Group: parts[0], Kind: parts[1], Name: parts[2]}
}
