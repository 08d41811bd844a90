package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/engine/model"
)

// Group and kind of the classes that need no translation.
const (
	classGroup = "karpenter.k8s.aws"
	classKind  = "EC2NodeClass"
)

// understood reports whether this package supports node classes of ref's kind.
func understood(ref cloud.ClassRef) bool {
	return ref.Group == classGroup && ref.Kind == classKind ||
		ref.Group == eksv1.GroupVersion.Group && ref.Kind == eksv1.Kind ||
		v1alpha1.IsNodeGroup(ref.Group, ref.Kind)
}

// KnownGroup reports whether Nodeless manages NodePools and NodeClaims whose node class is of this group. As in the
// controller, the group decides (cluster.State.Manages).
func KnownGroup(group string) bool {
	return slices.Contains([]string{classGroup, eksv1.GroupVersion.Group, v1alpha1.GroupVersion.Group}, group)
}

// ClassOf returns the EC2NodeClass that o is or translates to, and the name under which it is stored (aws.ClassName).
// The class is nil if o is no node class.
func ClassOf(o client.Object) (name string, class *ec2v1.EC2NodeClass) {
	switch o := o.(type) {
	case *ec2v1.EC2NodeClass:
		class = o
	case *eksv1.NodeClass:
		class = aws.FromNodeClass(o)
	case *v1alpha1.NodeGroup:
		class = aws.FromNodeGroup(o)
	default:
		return "", nil
	}
	return aws.ClassName(cloud.ClassRef{Kind: cmp.Or(class.Kind, classKind), Name: class.Name}), class
}

// Class returns the EC2NodeClass that ref names or translates to, or nil. The caller must not modify it.
func (c *Cluster) Class(ref cloud.ClassRef) *ec2v1.EC2NodeClass {
	if !understood(ref) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.classes[aws.ClassName(ref)]
}

// Assumed says what was assumed about node classes that no controller has resolved.
func (c *Cluster) Assumed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, class := range slices.Sorted(maps.Keys(c.assumed)) {
		out = append(out, c.assumed[class])
	}
	return out
}

// Prices names the source of prices.
func (c *Cluster) Prices() string {
	if c.catalog != nil {
		if p, ok := c.catalog.(interface{ PriceNote() string }); ok && p.PriceNote() != "" {
			return c.o.Prices + "; " + p.PriceNote()
		}
		return c.o.Prices
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	regions := strings.Join(slices.Sorted(maps.Keys(c.regions)), ", ")
	if regions == "" {
		return "built-in catalogue"
	}
	return "built-in catalogue for " + regions + ", no quote"
}

// offerAll updates the cluster state with what the node classes of all NodePools and NodeClaims offer.
func (c *Cluster) offerAll(ctx context.Context) {
	c.offers.Lock() // one at a time, so that an older result never replaces a newer one
	defer c.offers.Unlock()
	c.readWindowsIPAM(ctx)
	c.offerIn(ctx, c.State)
}

// readWindowsIPAM reads the VPC CNI settings that say whether Windows pods get addresses. If the read fails, the
// answer stays unknown.
func (c *Cluster) readWindowsIPAM(ctx context.Context) {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: catalog.WindowsIPAMMap,
	}}
	if c.client == nil {
		return
	}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(settings), settings); client.IgnoreNotFound(err) == nil {
		c.State.Update(settings)
	}
}

func (c *Cluster) offerIn(ctx context.Context, w *cluster.State) {
	refs := map[cloud.ClassRef]bool{}
	for _, np := range w.NodePools() {
		refs[cluster.ClassRef(np.Spec.Template.Spec.NodeClassRef)] = true
	}
	for _, claim := range w.Claims() {
		refs[cluster.ClassRef(claim.Spec.NodeClassRef)] = true
	}
	for ref := range refs {
		types, assumed, err := c.offered(ctx, ref)
		notReady := ""
		if err != nil {
			notReady = err.Error()
		}
		w.SetCatalog(ref, types, notReady)
		w.SetReservations(ref, c.reservations(ctx, ref, types))
		if p, ok := c.catalog.(cloud.Placer); ok && err == nil {
			if labels, err := p.Placement(ctx, ref); err == nil { // otherwise the placement stays as it was
				w.SetPlacement(ref, labels)
			}
		}
		if class := c.Class(ref); class != nil {
			w.SetGroup(ref, aws.NodeGroupOf(class))
		}
		c.mu.Lock()
		if w == c.State {
			delete(c.assumed, aws.ClassName(ref))
		}
		if assumed != "" {
			c.assumed[aws.ClassName(ref)] = assumed
		}
		c.mu.Unlock()
	}
}

// reservations returns the capacity reservations of a class: what they have free if the cloud says it, else nothing.
func (c *Cluster) reservations(ctx context.Context, ref cloud.ClassRef,
	types []model.InstanceType,
) []model.Reservation {
	class := c.Class(ref)
	if class == nil || len(class.Status.CapacityReservations) == 0 {
		return nil
	}
	if p, ok := c.catalog.(cloud.Reserver); ok {
		if out, err := p.Reservations(ctx, ref); err == nil {
			return out
		}
	}
	return aws.ReservationsOf(class, types)
}

// offered returns what a class offers, and the assumption made about the class, if any.
func (c *Cluster) offered(ctx context.Context, ref cloud.ClassRef) (types []model.InstanceType, assumed string,
	err error,
) {
	if !understood(ref) {
		return nil, "", fmt.Errorf("node classes of kind %s of group %q are not understood here, only %s of group %q "+
			"and %s of group %q, and NodeGroup", ref.Kind, ref.Group, classKind, classGroup, eksv1.Kind,
			eksv1.GroupVersion.Group)
	}
	class := c.Class(ref)
	if class == nil {
		return nil, "", fmt.Errorf("%s %q does not exist; create it or correct spec.template.spec.nodeClassRef.name",
			ref.Kind, ref.Name)
	}
	name := aws.ClassName(ref)
	c.mu.Lock()
	going := c.deleting[name]
	c.mu.Unlock()
	if going { // the prices of its nodes are still known
		defer func() {
			if err == nil {
				err = fmt.Errorf("%s %q is being deleted: it stays until its nodes are terminated, and launches none", ref.Kind,
					class.Name)
			}
		}()
	}
	untouched := len(class.Status.Conditions) == 0
	if why := notReadyReason(class); why != "" {
		types, _, _ = c.build(name, class) // the prices of its nodes are still known
		return types, "", fmt.Errorf("%s %q is not ready: %s", ref.Kind, ref.Name, why)
	}
	if c.catalog != nil && !untouched {
		if p, ok := c.catalog.(cloud.PodNetworker); ok {
			p.ReserveENIs(c.State.CNI().ReservedENIs())
		}
		types, err := c.catalog.Catalog(ctx, ref)
		return types, "", plain(err)
	}
	if have, ok := c.built[name]; ok && class.ResourceVersion != "" && have.version == versionOf(c, class) {
		return have.types, have.assumed, nil
	}
	return c.build(name, class)
}

// built is what the built-in catalogue offers for a version of a class.
type built struct {
	version string
	types   []model.InstanceType
	assumed string
}

// versionOf returns a key that changes whenever the offers of a class may change.
func versionOf(c *Cluster, class *ec2v1.EC2NodeClass) string {
	return fmt.Sprint(class.UID, "/", class.ResourceVersion, "/", c.State.CNI().ReservedENIs())
}

// build computes what the built-in catalogue offers for a class and caches it: equal offers must be the same slice.
func (c *Cluster) build(name string, class *ec2v1.EC2NodeClass) ([]model.InstanceType, string, error) {
	region := c.regionOf(class)
	offers := catalog.Of(region)
	switch {
	case region == "":
		return nil, "", errors.New("nothing in the cluster says in which AWS region it is; say it with --region")
	case offers == nil:
		return nil, "", fmt.Errorf("region %s is not in the built-in catalogue; there are %s", region,
			strings.Join(catalog.Regions(), ", "))
	}
	types, guessed, err := aws.BuiltIn(class, region, offers, c.State.CNI().ReservedENIs())
	if err != nil {
		return nil, "", plain(err)
	}
	b := built{version: versionOf(c, class), types: types}
	if guessed {
		b.assumed = fmt.Sprintf("no controller has resolved %s %q yet: all zones of %s and images for amd64 and arm64 "+
			"are assumed", cmp.Or(class.Kind, classKind), class.Name, region)
	}
	c.built[name] = b
	c.mu.Lock()
	c.regions[region] = true
	c.mu.Unlock()
	return b.types, b.assumed, nil
}

// plain removes the text of cloud.ErrClassNotReady from an error.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimSuffix(err.Error(), ": "+cloud.ErrClassNotReady.Error())
	return errors.New(text)
}

// notReadyReason returns the first problem that a controller found with a class, or "".
func notReadyReason(class *ec2v1.EC2NodeClass) string {
	ready := true
	for _, c := range class.Status.Conditions {
		ready = ready && (c.Type != "Ready" || c.Status != "False")
	}
	if ready {
		return ""
	}
	for _, c := range class.Status.Conditions {
		if c.Type != "Ready" && c.Status == "False" && c.Type != ec2v1.ConditionTypeCapacityReservationsReady {
			return c.Type + ": " + c.Message
		}
	}
	return "its condition Ready is False"
}

// regionOf returns the AWS region of a class: the configured one, else the region of its subnets, of the cluster's
// Nodes or of the NodePools' requirements, else the default.
func (c *Cluster) regionOf(class *ec2v1.EC2NodeClass) string {
	if c.o.Region != "" {
		return c.o.Region
	}
	for _, s := range class.Status.Subnets {
		if region := catalog.RegionOf(s.Zone); region != "" {
			return region
		}
	}
	s := c.State.Snapshot()
	for i := range s.Nodes {
		if r, ok := s.Nodes[i].Labels.Get(model.LabelRegion); ok && len(r.Values) == 1 && !r.Complement &&
			catalog.Of(r.Values[0]) != nil {
			return r.Values[0]
		}
		if region := catalog.RegionOf(s.Nodes[i].Zone); region != "" {
			return region
		}
	}
	for i := range s.Pools {
		for _, key := range []string{model.LabelRegion, model.LabelZone} {
			if r, ok := s.Pools[i].Requirements.Get(key); ok && !r.Complement && len(r.Values) > 0 {
				if region := catalog.RegionOf(r.Values[0]); region != "" {
					return region
				}
			}
		}
	}
	return c.o.DefaultRegion
}

// SetClasses replaces the node classes, keyed by the names of ClassOf, for a forecast. A class that is being deleted
// launches nothing, but keeps its offers. c must have been read for this forecast alone.
func (c *Cluster) SetClasses(classes map[string]*ec2v1.EC2NodeClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.classes, c.deleting = map[string]*ec2v1.EC2NodeClass{}, map[string]bool{}
	for name, class := range classes {
		if class.DeletionTimestamp != nil {
			class, c.deleting[name] = class.DeepCopy(), true
			class.DeletionTimestamp = nil // otherwise the catalog would report only the deletion
		}
		c.classes[name] = class
	}
}

// OfferTo updates another cluster state with what the classes of its NodePools and NodeClaims offer.
func (c *Cluster) OfferTo(ctx context.Context, w *cluster.State) {
	c.offers.Lock()
	defer c.offers.Unlock()
	c.offerIn(ctx, w)
}

// Previewer resolves a changed class without writing anything. A cloud.Provider may implement it.
type Previewer interface {
	Preview(ctx context.Context, class *ec2v1.EC2NodeClass) error
}

// Unusable returns why a class cannot launch nodes, or nil if it can.
func (c *Cluster) Unusable(ctx context.Context, class string) error {
	c.offers.Lock()
	defer c.offers.Unlock()
	_, _, err := c.offered(ctx, cloud.ClassRef{Group: classGroup, Kind: classKind, Name: class})
	return err
}

// ClassDeleting reports whether a class is being deleted.
func (c *Cluster) ClassDeleting(class string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleting[class]
}

// Preview resolves a changed or new class if the source of prices can. Otherwise a changed class keeps its previous
// resolution, and Assumed says so.
func (c *Cluster) Preview(ctx context.Context, class *ec2v1.EC2NodeClass) {
	p, can := c.catalog.(Previewer)
	if can && p.Preview(ctx, class) == nil || len(class.Status.Conditions) == 0 {
		return // a new class is reported as unresolved anyway
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assumed[class.Name] = fmt.Sprintf(
		"%s %q is taken to find the same subnets, security groups and images as before; --prices aws asks AWS", classKind,
		class.Name)
}
