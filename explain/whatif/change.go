package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/manifest"
)

// Change is one change of a cluster: an object to apply, an object to delete, or a new size of a Deployment or of a
// static NodePool.
type Change struct {
	Item manifest.Item // applied if its JSON is set
	File string        // names the manifest in errors

	Delete, Scale string // kind/name or kind/namespace/name, such as nodepool/general
	Replicas      int
	Namespace     string // default for objects that name none
}

// Manifests returns the changes made by applying manifests. file names them in errors.
func Manifests(in io.Reader, file string) ([]Change, error) {
	var out []Change
	err := manifest.Each(in, func(i manifest.Item) error {
		out = append(out, Change{Item: i, File: file})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// Edits returns the changes of --delete and --scale.
func Edits(deletes, scales []string) ([]Change, error) {
	var out []Change
	for _, name := range deletes {
		out = append(out, Change{Delete: name})
	}
	for _, text := range scales {
		c, err := ParseScale(text, "")
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// kindsByName are the kinds that Delete and Scale may name.
var kindsByName = map[string]func() client.Object{
	"nodepool":     func() client.Object { return &karpv1.NodePool{} },
	"ec2nodeclass": func() client.Object { return &ec2v1.EC2NodeClass{} },
	"nodeoverlay":  func() client.Object { return &karpv1alpha1.NodeOverlay{} },
	"daemonset":    func() client.Object { return &appsv1.DaemonSet{} },
	"deployment":   func() client.Object { return &appsv1.Deployment{} },
	"node":         func() client.Object { return &corev1.Node{} },
}

var shortNames = map[string]string{
	"ds": "daemonset", "deploy": "deployment", "nodepools": "nodepool",
	"ec2nodeclasses": "ec2nodeclass", "ec2nc": "ec2nodeclass",
	"nodeoverlays": "nodeoverlay", "daemonsets": "daemonset", "deployments": "deployment", "nodes": "node", "no": "node",
}

// Named parses kind/name or kind/namespace/name.
func (c *Change) Named(text string) (kind string, key client.ObjectKey, err error) {
	parts := strings.Split(text, "/")
	kind = strings.ToLower(parts[0])
	kind, _, _ = strings.Cut(kind, ".")
	if long := shortNames[kind]; long != "" {
		kind = long
	}
	if kindsByName[kind] == nil || len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return "", key, fmt.Errorf("%q: want kind/name or kind/namespace/name, the kind one of nodepool, ec2nodeclass, "+
			"nodeoverlay, daemonset, deployment, node", text)
	}
	key.Name = parts[len(parts)-1]
	if kind == "daemonset" || kind == "deployment" {
		if key.Namespace = c.Namespace; len(parts) == 3 {
			key.Namespace = parts[1]
		}
	} else if len(parts) == 3 {
		return "", key, fmt.Errorf("%q: a %s has no namespace; leave it out", text, kind)
	}
	return kind, key, nil
}

// changedObjects holds a cluster's objects while changes are applied.
type changedObjects struct {
	in      Input
	objects []client.Object
	seq     int // counts the pods that were added

	descriptions   []string        // the changes in words
	assumed        []string        // what the changes leave open, for Outcome.Assumed
	pools, classes map[string]bool // those that the changes apply
}

// applyAll applies the changes. Unchanged objects are shared with the cluster.
func applyAll(ctx context.Context, in Input) (*changedObjects, error) {
	a := &changedObjects{in: in, objects: in.Cluster.Objects(), pools: map[string]bool{}, classes: map[string]bool{}}
	for i := range in.Changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := a.apply(ctx, &in.Changes[i])
		if err != nil {
			return nil, err
		}
		a.descriptions = append(a.descriptions, text)
	}
	return a, a.boundNodes()
}

func (a *changedObjects) apply(ctx context.Context, c *Change) (string, error) {
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
		return "", fmt.Errorf("--scale %s: %w", c.Scale, explainGet(err))
	}
	return a.scale(ctx, d, c.Replicas, nil)
}

func explainGet(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return errors.New("not found; give its name as kubectl get shows it, with its namespace")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("not allowed to read it; an administrator allows it: nodeless rbac --view (%w)", err)
	}
	return err
}

// find returns the index of an object, or -1.
func (a *changedObjects) find(like client.Object, key client.ObjectKey) int {
	return slices.IndexFunc(a.objects, func(o client.Object) bool {
		return reflect.TypeOf(o) == reflect.TypeOf(like) && client.ObjectKeyFromObject(o) == key
	})
}

// changeable names the kinds that manifests may change.
const changeable = "NodePool, EC2NodeClass, NodeOverlay, DaemonSet, Deployment, DeviceClass, ResourceClaim and " +
	"ResourceClaimTemplate"

func (a *changedObjects) applyItem(ctx context.Context, c *Change) (string, error) {
	o, err := c.Item.Exactly()
	if errors.Is(err, manifest.ErrUnknownKind) {
		return "", fmt.Errorf("%w; plan knows %s", err, changeable)
	}
	if err != nil {
		return "", err
	}
	n, _ := c.Item.Name()
	if o.GetName() == "" {
		return "", fmt.Errorf("line %d: %s without metadata.name", c.Item.Line, n.Kind)
	}
	switch o.(type) {
	case *karpv1.NodePool, *ec2v1.EC2NodeClass, *karpv1alpha1.NodeOverlay, *resourcev1.DeviceClass:
	case *appsv1.DaemonSet, *appsv1.Deployment, *resourcev1.ResourceClaim, *resourcev1.ResourceClaimTemplate:
		if o.GetNamespace() == "" {
			o.SetNamespace(c.Namespace)
		}
	default:
		return "", fmt.Errorf("line %d: plan cannot forecast a changed %s; it knows %s", c.Item.Line, n, changeable)
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
	fields = a.keepRedacted(before, after, fields)
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
		return name + " is created", nil
	case len(fields) == 0:
		return name + " is unchanged", nil
	}
	a.objects = slices.Clone(a.objects)
	a.objects[at] = after
	return name + " changes: " + strings.Join(fields, ", "), nil
}

// keepRedacted takes the user data of an EC2NodeClass as unchanged where a capture leaves it out. It returns the
// changed fields without it.
func (a *changedObjects) keepRedacted(before, after client.Object, fields []string) []string {
	was, _ := before.(*ec2v1.EC2NodeClass)
	class, _ := after.(*ec2v1.EC2NodeClass)
	if was == nil || class == nil || ptr.Deref(was.Spec.UserData, "") != capture.Redacted ||
		ptr.Deref(class.Spec.UserData, "") == capture.Redacted {
		return fields
	}
	class.Spec.UserData = was.Spec.UserData
	a.assumed = append(a.assumed, fmt.Sprintf(
		"whether the user data of EC2NodeClass %q changes is not known: the capture leaves it out", class.Name))
	return slices.DeleteFunc(fields, func(field string) bool { return field == "spec.userData" })
}

func (a *changedObjects) delete(ctx context.Context, c *Change) (string, error) {
	kind, key, err := c.Named(c.Delete)
	if err != nil {
		return "", fmt.Errorf("--delete %w", err)
	}
	if kind == "node" {
		return a.deleteNode(key.Name)
	}
	like := kindsByName[kind]()
	if d, ok := like.(*appsv1.Deployment); ok {
		if err := a.in.Cluster.Get(ctx, key, d); err != nil {
			return "", fmt.Errorf("--delete %s: %w", c.Delete, explainGet(err))
		}
		if _, err := a.scale(ctx, d, 0, nil); err != nil {
			return "", err
		}
		return "Deployment " + key.String() + " is deleted", nil
	}
	at := a.find(like, key)
	if at < 0 {
		return "", fmt.Errorf("--delete %s: %w", c.Delete,
			explainGet(apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)))
	}
	if class, ok := a.objects[at].(*ec2v1.EC2NodeClass); ok { // a finalizer keeps it while it has nodes
		class = class.DeepCopy()
		now := metav1.NewTime(a.in.Cluster.Snapshot().Now)
		class.DeletionTimestamp, class.ResourceVersion = &now, ""
		a.objects = slices.Clone(a.objects)
		a.objects[at] = class
		return "EC2NodeClass " + class.Name + " is deleted once its nodes are terminated", nil
	}
	a.objects = slices.Delete(slices.Clone(a.objects), at, at+1)
	return reflect.TypeOf(like).Elem().Name() + " " + strings.TrimPrefix(key.String(), "/") + " is deleted", nil
}

// podsOf returns the pods of a Deployment that have not ended, by name.
func (a *changedObjects) podsOf(d *appsv1.Deployment) []*corev1.Pod {
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
