package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/internal/kit/manifest"
)

// Change is one change of a cluster: an object as it is to be, or one that is to go, or the number of a Deployment's
// pods or of a static NodePool's machines.
type Change struct {
	Item manifest.Item // to be applied, if JSON is there
	File string        // where it was written

	Delete, Scale string // kind/name or kind/namespace/name, such as nodepool/general
	Replicas      int
	Namespace     string // of what does not say one itself
}

// kindsByName are the kinds that can be named in Delete and Scale.
var kindsByName = map[string]func() client.Object{
	"nodepool":     func() client.Object { return &karpv1.NodePool{} },
	"ec2nodeclass": func() client.Object { return &ec2v1.EC2NodeClass{} },
	"nodeoverlay":  func() client.Object { return &karpv1alpha1.NodeOverlay{} },
	"daemonset":    func() client.Object { return &appsv1.DaemonSet{} },
	"deployment":   func() client.Object { return &appsv1.Deployment{} },
}

var shortNames = map[string]string{
	"ds": "daemonset", "deploy": "deployment", "nodepools": "nodepool",
	"ec2nodeclasses": "ec2nodeclass", "ec2nc": "ec2nodeclass",
	"nodeoverlays": "nodeoverlay", "daemonsets": "daemonset", "deployments": "deployment",
}

// Named reads kind/name or kind/namespace/name.
func (c *Change) Named(text string) (kind string, key client.ObjectKey, err error) {
	parts := strings.Split(text, "/")
	kind = strings.ToLower(parts[0])
	kind, _, _ = strings.Cut(kind, ".")
	if long := shortNames[kind]; long != "" {
		kind = long
	}
	if kindsByName[kind] == nil || len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return "", key, fmt.Errorf("%q: want kind/name or kind/namespace/name, the kind one of nodepool, ec2nodeclass, nodeoverlay, daemonset, deployment", text)
	}
	key.Name = parts[len(parts)-1]
	if kind == "daemonset" || kind == "deployment" {
		if key.Namespace = c.Namespace; len(parts) == 3 {
			key.Namespace = parts[1]
		}
	} else if len(parts) == 3 {
		return "", key, fmt.Errorf("%q: a %s has no namespace; leave it away", text, kind)
	}
	return kind, key, nil
}

// applied is a cluster's objects while changes are made.
type applied struct {
	in      Input
	objects []client.Object
	seq     int // counts the pods that were added

	said           []string        // what the changes are, in words
	pools, classes map[string]bool // that are applied
}

// applyAll gives the objects of the cluster with the changes. Objects that do not change are the same.
func applyAll(ctx context.Context, in Input) (*applied, error) {
	a := &applied{in: in, objects: in.Cluster.Objects(), pools: map[string]bool{}, classes: map[string]bool{}}
	for i := range in.Changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := a.apply(ctx, &in.Changes[i])
		if err != nil {
			return nil, err
		}
		a.said = append(a.said, text)
	}
	return a, a.boundNodes()
}

func (a *applied) apply(ctx context.Context, c *Change) (string, error) {
	switch {
	case c.Item.JSON != nil:
		text, err := a.applyItem(ctx, c)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.File, err)
		}
		return text, nil
	case c.Delete != "":
		return a.delete(ctx, c)
	}
	kind, key, err := c.Named(c.Scale)
	if err != nil {
		return "", fmt.Errorf("--scale %w", err)
	}
	switch {
	case c.Replicas < 0 || kind != "deployment" && kind != "nodepool":
		return "", fmt.Errorf("--scale %s=%d: only deployments and static nodepools are scaled, to 0 or more", c.Scale,
			c.Replicas)
	case kind == "nodepool":
		return a.scalePool(c, key)
	}
	d := &appsv1.Deployment{}
	if err := a.in.Cluster.Get(ctx, key, d); err != nil {
		return "", fmt.Errorf("--scale %s: %w", c.Scale, noSuch(err))
	}
	return a.scale(ctx, d, c.Replicas, nil)
}

func noSuch(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return errors.New("there is none of that name; name it as kubectl get shows it, with its namespace")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("not allowed to read it; an administrator allows it: nodeless rbac --view (%w)", err)
	}
	return err
}

// find is the index of an object of the cluster, -1 if it is not there.
func (a *applied) find(like client.Object, key client.ObjectKey) int {
	return slices.IndexFunc(a.objects, func(o client.Object) bool {
		return reflect.TypeOf(o) == reflect.TypeOf(like) && client.ObjectKeyFromObject(o) == key
	})
}

func (a *applied) applyItem(ctx context.Context, c *Change) (string, error) {
	o, err := c.Item.Exactly()
	if errors.Is(err, manifest.ErrUnknownKind) {
		return "", fmt.Errorf("%w; plan knows NodePool, EC2NodeClass, NodeOverlay, DaemonSet and Deployment", err)
	}
	if err != nil {
		return "", err
	}
	n, _ := c.Item.Name()
	if o.GetName() == "" {
		return "", fmt.Errorf("line %d: %s without metadata.name", c.Item.Line, n.Kind)
	}
	switch o.(type) {
	case *karpv1.NodePool, *ec2v1.EC2NodeClass, *karpv1alpha1.NodeOverlay:
	case *appsv1.DaemonSet, *appsv1.Deployment:
		if o.GetNamespace() == "" {
			o.SetNamespace(c.Namespace)
		}
	default:
		return "", fmt.Errorf("line %d: plan does not know what follows from a changed %s; it knows NodePool, EC2NodeClass, NodeOverlay, DaemonSet and Deployment", c.Item.Line, n)
	}
	if d, ok := o.(*appsv1.Deployment); ok {
		return a.deployment(ctx, d)
	}
	at := a.find(o, client.ObjectKeyFromObject(o))
	var before client.Object
	if at >= 0 {
		before = a.objects[at]
	}
	after, fields, err := merged(before, o, c.Item)
	if err != nil {
		return "", err
	}
	switch after := after.(type) {
	case *karpv1.NodePool:
		a.pools[after.Name] = true
	case *ec2v1.EC2NodeClass:
		a.classes[after.Name] = true
		if before == nil || len(fields) > 0 {
			a.in.Cluster.Preview(ctx, after)
		}
	}
	name := n.Kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	switch {
	case at < 0:
		a.objects = append(slices.Clone(a.objects), after)
		return name + " comes", nil
	case len(fields) == 0:
		return name + " stays as it is", nil
	}
	a.objects = slices.Clone(a.objects)
	a.objects[at] = after
	return name + " changes: " + strings.Join(fields, ", "), nil
}

func (a *applied) delete(ctx context.Context, c *Change) (string, error) {
	kind, key, err := c.Named(c.Delete)
	if err != nil {
		return "", fmt.Errorf("--delete %w", err)
	}
	like := kindsByName[kind]()
	if d, ok := like.(*appsv1.Deployment); ok {
		if err := a.in.Cluster.Get(ctx, key, d); err != nil {
			return "", fmt.Errorf("--delete %s: %w", c.Delete, noSuch(err))
		}
		if _, err := a.scale(ctx, d, 0, nil); err != nil {
			return "", err
		}
		return "Deployment " + key.String() + " goes", nil
	}
	at := a.find(like, key)
	if at < 0 {
		return "", fmt.Errorf("--delete %s: %w", c.Delete,
			noSuch(apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)))
	}
	if class, ok := a.objects[at].(*ec2v1.EC2NodeClass); ok { // a finalizer keeps it as long as it has machines
		class = class.DeepCopy()
		now := metav1.NewTime(a.in.Cluster.Snapshot().Now)
		class.DeletionTimestamp, class.ResourceVersion = &now, ""
		a.objects = slices.Clone(a.objects)
		a.objects[at] = class
		return "EC2NodeClass " + class.Name + " goes once its machines are gone", nil
	}
	a.objects = slices.Delete(slices.Clone(a.objects), at, at+1)
	return reflect.TypeOf(like).Elem().Name() + " " + strings.TrimPrefix(key.String(), "/") + " goes", nil
}

// podsOf are the pods of a Deployment that are not over, by name.
func (a *applied) podsOf(d *appsv1.Deployment) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range a.objects {
		pod, ok := o.(*corev1.Pod)
		if !ok || pod.Namespace != d.Namespace || pod.DeletionTimestamp != nil ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if ownedBy(pod, d.Name) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func decoded(raw []byte) (map[string]any, error) {
	var out map[string]any
	err := json.Unmarshal(raw, &out)
	return out, err
}
