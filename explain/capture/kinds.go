package capture

import (
	"context"
	"fmt"
	"slices"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/translate"
)

// NodeClass of EKS Auto Mode and NodeGroup are our own; the others register themselves.
func init() { utilruntime.Must(eksv1.AddToScheme(scheme.Scheme)) }

func init() { utilruntime.Must(v1alpha1.AddToScheme(scheme.Scheme)) }

// page is the number of objects in one list request. parallelReads is the number of kinds read at the same time.
const (
	page          = 2000
	parallelReads = 6
)

// need says how much depends on a kind.
type need int

const (
	wanted    need = iota // without it answers would be wrong: an error, or a gap with Options.Partial
	essential             // without it there is nothing to say
	optional              // a cluster may not serve it: then there are none
)

// kind is a kind that decisions depend on.
type kind struct {
	group, resource string
	need            need
	object          client.Object
}

var kinds = slices.Concat([]kind{
	{"", "pods", essential, &corev1.Pod{}},
	{"", "nodes", essential, &corev1.Node{}},
	{"karpenter.sh", "nodepools", wanted, &karpv1.NodePool{}},
	{"karpenter.sh", "nodeclaims", wanted, &karpv1.NodeClaim{}},
	{"karpenter.k8s.aws", "ec2nodeclasses", wanted, &ec2v1.EC2NodeClass{}},
	{"eks.amazonaws.com", "nodeclasses", optional, &eksv1.NodeClass{}},
	{"nodeless.sh", "nodegroups", optional, &v1alpha1.NodeGroup{}},
	{"karpenter.sh", "nodeoverlays", optional, &karpv1alpha1.NodeOverlay{}},
	{"apps", "daemonsets", wanted, &appsv1.DaemonSet{}},
	{"", "limitranges", wanted, &corev1.LimitRange{}},
	{"", "namespaces", wanted, &corev1.Namespace{}},
	{"", "persistentvolumeclaims", wanted, &corev1.PersistentVolumeClaim{}},
	{"", "persistentvolumes", wanted, &corev1.PersistentVolume{}},
	{"storage.k8s.io", "storageclasses", wanted, &storagev1.StorageClass{}},
	{"storage.k8s.io", "csinodes", wanted, &storagev1.CSINode{}},
	{"storage.k8s.io", "csidrivers", optional, &storagev1.CSIDriver{}},
	{"storage.k8s.io", "csistoragecapacities", optional, &storagev1.CSIStorageCapacity{}},
	{"policy", "poddisruptionbudgets", wanted, &policyv1.PodDisruptionBudget{}},
}, allocations)

// allocations are the kinds of dynamic resource allocation. Claims can be judged only if all of them are known.
var allocations = []kind{
	{"resource.k8s.io", "deviceclasses", optional, &resourcev1.DeviceClass{}},
	{"resource.k8s.io", "resourceslices", optional, &resourcev1.ResourceSlice{}},
	{"resource.k8s.io", "resourceclaims", optional, &resourcev1.ResourceClaim{}},
	{"resource.k8s.io", "resourceclaimtemplates", optional, &resourcev1.ResourceClaimTemplate{}},
}

// spreadKinds say which pods kube-scheduler's default topology spread constraints count.
var spreadKinds = []kind{
	{"", "services", wanted, &corev1.Service{}},
	{"apps", "replicasets", wanted, &appsv1.ReplicaSet{}},
	{"apps", "statefulsets", wanted, &appsv1.StatefulSet{}},
	{"", "replicationcontrollers", wanted, &corev1.ReplicationController{}},
}

// kinds returns the kinds that this cluster's decisions depend on.
func (c *Cluster) kinds() []kind {
	if c.o.Scheduler.Spreads() {
		return slices.Concat(kinds, spreadKinds)
	}
	return kinds
}

// extraKinds are kinds that only forecasts of changes need; no decision depends on them.
var extraKinds = []kind{
	{"apps", "deployments", optional, &appsv1.Deployment{}},
}

// formerKinds are kinds that only captures of earlier versions hold; nothing needs them.
var formerKinds = []kind{{"scheduling.k8s.io", "priorityclasses", optional, &schedulingv1.PriorityClass{}}}

// newList returns an empty list of the kind.
func (k kind) newList() (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(k.object, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	list, err := scheme.Scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}

// name returns the resource as kubectl accepts it.
func (k kind) name() string {
	if k.group == "" || k.group == "apps" || k.group == "policy" || k.group == "storage.k8s.io" {
		return k.resource
	}
	return k.resource + "." + k.group
}

// readAll lists every kind. The error names all kinds that cannot be read.
func (c *Cluster) readAll(ctx context.Context) error {
	read := c.kinds()
	lacking := make([]*MissingKind, len(read))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelReads)
	for i, k := range read {
		group.Go(func() error {
			if err := c.tolerate(k, c.readKind(ctx, k, page, c.update)); !asMissingKind(err, &lacking[i]) {
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if all := combine(lacking); all != nil {
		return all
	}
	return nil
}

// readKind lists the objects of a kind, atOnce per request.
func (c *Cluster) readKind(ctx context.Context, k kind, atOnce int64, each func(client.Object)) error {
	next := ""
	for {
		list, err := k.newList()
		if err != nil {
			return err
		}
		if err := c.client.List(ctx, list, client.Limit(atOnce), client.Continue(next)); err != nil {
			return k.explain(c.server, "list", err)
		}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			if object, ok := o.(client.Object); ok {
				each(object)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", k.name(), err)
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// tolerate drops err if the kind is not required. It records a gap, unless an optional kind is just not served.
func (c *Cluster) tolerate(k kind, err error) error {
	var lacks *MissingKind
	switch {
	case err == nil || k.need == optional && asMissingKind(err, &lacks) && lacks.NotServed:
		return nil
	case k.need == wanted && c.o.Partial && asMissingKind(err, &lacks), k.need == optional && asMissingKind(err, &lacks):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gaps = append(c.gaps, err)
		return nil
	}
	return err
}

// update adds or replaces an object.
func (c *Cluster) update(o client.Object) {
	if c.o.Keep {
		_, _ = translate.LeanPod(o) // never fails
		c.mu.Lock()
		c.kept = append(c.kept, o)
		c.mu.Unlock()
	}
	switch o := o.(type) {
	case *ec2v1.EC2NodeClass, *eksv1.NodeClass, *v1alpha1.NodeGroup:
		name, class := ClassOf(o)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.classes[name] = class
		return
	case *karpv1alpha1.NodeOverlay:
		if len(o.Status.Conditions) == 0 {
			return // no controller has evaluated it: NodeOverlays are behind a feature gate
		}
	case *corev1.Pod:
		o.ManagedFields = nil
	}
	c.State.Update(o)
}
