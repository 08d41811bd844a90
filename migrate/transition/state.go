package transition

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// Namespace and Name of the ConfigMap that holds the state.
const (
	Namespace = "kube-system"
	Name      = "nodeless-migration"
)

// State records how far a migration has come, and what it found.
type State struct {
	Step       Step        `json:"step"`
	Closing    bool        `json:"closing,omitempty"` // the groups may have changed already: what was recorded stays
	Back       bool        `json:"back,omitempty"`    // the migration is being undone
	Groups     []Group     `json:"groups,omitempty"`
	Keep       []string    `json:"keep,omitempty"` // names of groups that stay
	Autoscaler *Autoscaler `json:"autoscaler,omitempty"`
	Pools      []Pool      `json:"pools,omitempty"`
	// Before are the NodeClaims that existed when the groups were closed: Back leaves their nodes alone.
	Before []string `json:"before,omitempty"`
	// DrainingSince is when the drain of the groups' nodes began: a continued drain does not wait again for nodes that
	// were launched since. Nil = they are not being drained.
	DrainingSince *metav1.Time `json:"drainingSince,omitempty"`
	// Access is how nodes with the groups' roles logged in before the groups were deleted.
	Access []Access `json:"access,omitempty"`
}

// Group is a node group as it was before the migration.
type Group struct {
	Name      string `json:"name"`                // of the Auto Scaling group
	Nodegroup string `json:"nodegroup,omitempty"` // of EKS; "" = not managed by EKS
	Min       int32  `json:"min"`
	Max       int32  `json:"max"`
	Desired   int32  `json:"desired"`
	// Suspend are the processes that the migration suspends, except those that were already suspended.
	Suspend []string `json:"suspend,omitempty"`
	// Definition recreates the group after its deletion: an input of CreateNodegroup or CreateAutoScalingGroup.
	Definition json.RawMessage `json:"definition,omitempty"`
}

// Title names a group for people.
func (g *Group) Title() string {
	if g.Nodegroup != "" {
		return "node group " + g.Nodegroup
	}
	return "Auto Scaling group " + g.Name
}

// Autoscaler is Cluster Autoscaler's Deployment as it was before the migration.
type Autoscaler struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Replicas  int32  `json:"replicas"`
}

// Pool is a NodePool that the migration uses. Closed holds its limits and replicas while it must not launch.
type Pool struct {
	Name   string      `json:"name"`
	Closed *PoolBefore `json:"closed,omitempty"`
}

// PoolBefore is what a closed pool had before.
type PoolBefore struct {
	Limits   karpv1.Limits `json:"limits,omitempty"`
	Replicas *int64        `json:"replicas,omitempty"`
}

const stateKey = "state.json"

// Load reads the state. It is empty if no migration has begun.
func (t *Transition) Load(ctx context.Context) (*State, error) {
	m, err := t.kubernetes.CoreV1().ConfigMaps(Namespace).Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &State{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the migration: %w", err)
	}
	s := &State{}
	if err := json.Unmarshal([]byte(m.Data[stateKey]), s); err != nil {
		return nil, fmt.Errorf("state of the migration: ConfigMap %s/%s: %w; restore it from a backup, "+
			"or delete it to start over with the groups as they are", Namespace, Name, err)
	}
	return s, nil
}

func (t *Transition) save(ctx context.Context, s *State) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return fmt.Errorf("state of the migration: %w", err)
	}
	maps := t.kubernetes.CoreV1().ConfigMaps(Namespace)
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: Namespace}, Data: map[string]string{stateKey: string(text)},
	}
	_, err = maps.Update(ctx, want, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, want, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("state of the migration: %w", err)
	}
	return nil
}

// discover records groups, autoscaler and pools that the state does not have yet. Until the groups are closed, it
// also updates the sizes of the groups that it has.
func (t *Transition) discover(ctx context.Context, s *State) error {
	if s.Step >= Emptied {
		return nil
	}
	in, err := t.instances(ctx)
	if err != nil {
		return err
	}
	kept, err := t.keptGroups(ctx, s)
	if err != nil {
		return err
	}
	found, err := t.groups.find(ctx, in, kept)
	if err != nil {
		return err
	}
	for _, g := range found {
		i := slices.IndexFunc(s.Groups, func(x Group) bool {
			return x.Name == g.Name || x.Nodegroup != "" && x.Nodegroup == g.Nodegroup
		})
		switch {
		case i < 0:
			s.Groups = append(s.Groups, g)
		case !s.Closing:
			s.Groups[i] = g
		default:
			s.Groups[i].Name = g.Name // differs if EKS created the group again
		}
	}
	if s.Closing {
		return nil
	}
	s.Groups = slices.DeleteFunc(s.Groups, func(x Group) bool {
		return !slices.ContainsFunc(found, func(g Group) bool { return g.Name == x.Name })
	})
	if err := t.findPools(ctx, s); err != nil {
		return err
	}
	s.Autoscaler, err = t.findAutoscaler(ctx)
	return err
}

// instances are the IDs of the instances of nodes.
type instances struct {
	workers []string // whose nodes no NodePool launched
	control []string // of the control plane
}

// instances lists the instances of the cluster's nodes, without the workers of NodePools.
func (t *Transition) instances(ctx context.Context) (instances, error) {
	var out instances
	list, err := t.kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return out, fmt.Errorf("list nodes: %w", err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		_, ofPool := n.Labels[karpv1.NodePoolLabelKey]
		_, control := n.Labels["node-role.kubernetes.io/control-plane"]
		switch id := fromaws.InstanceID(n); {
		case id == "":
		case control:
			out.control = append(out.control, id)
		case !ofPool:
			out.workers = append(out.workers, id)
		}
	}
	return out, nil
}

// keep leaves groups out of the migration, by name.
func (s *State) keep(names []string, say func(format string, args ...any)) error {
	for _, name := range names {
		i := slices.IndexFunc(s.Groups, func(g Group) bool { return g.Name == name || g.Nodegroup == name })
		switch {
		case slices.Contains(s.Keep, name):
		case i < 0:
			return fmt.Errorf("--keep %s: the migration has no such group; nodeless migrate status lists its groups", name)
		case s.Closing:
			return fmt.Errorf("--keep %s: the group is closed already; take the migration back with nodeless migrate back, "+
				"and begin anew", name)
		default:
			g := s.Groups[i]
			s.Keep = append(s.Keep, g.Name)
			if g.Nodegroup != "" {
				s.Keep = append(s.Keep, g.Nodegroup)
			}
			s.Groups = slices.Delete(s.Groups, i, i+1)
			say("%s stays as it is", g.Title())
		}
	}
	return nil
}

// keptGroups returns the names of the Auto Scaling groups that stay: those that users keep, and those for which a
// NodeGroup was made.
func (t *Transition) keptGroups(ctx context.Context, s *State) (map[string]bool, error) {
	kept := map[string]bool{}
	for _, name := range s.Keep {
		kept[name] = true
	}
	var list v1alpha1.NodeGroupList
	err := t.client.List(ctx, &list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return kept, nil // the cluster does not have the kind
	}
	if err != nil {
		return nil, fmt.Errorf("list NodeGroups: %w", err)
	}
	for i := range list.Items {
		kept[list.Items[i].Spec.AutoScalingGroupName] = true
	}
	return kept, nil
}

// findPools records the pools that the migration uses, which are those without nodes and those that `nodeless migrate
// --apply` made, but not those of NodeGroups; and the existing NodeClaims.
func (t *Transition) findPools(ctx context.Context, s *State) error {
	var pools karpv1.NodePoolList
	var claims karpv1.NodeClaimList
	if err := t.client.List(ctx, &pools); err != nil {
		return fmt.Errorf("list NodePools: %w", err)
	}
	if err := t.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	s.Before = nil
	used := map[string]bool{}
	for i := range claims.Items {
		s.Before = append(s.Before, claims.Items[i].Name)
		used[claims.Items[i].Labels[karpv1.NodePoolLabelKey]] = true
	}
	known := s.Pools
	s.Pools = nil
	for i := range pools.Items {
		p := &pools.Items[i]
		if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil && v1alpha1.IsNodeGroup(ref.Group, ref.Kind) {
			continue
		}
		k := slices.IndexFunc(known, func(x Pool) bool { return x.Name == p.Name })
		switch {
		case k >= 0:
			s.Pools = append(s.Pools, known[k])
		case !used[p.Name] && !isOfOthers(p.Spec.Template.Spec.NodeClassRef) || appliedByMigrate(p):
			s.Pools = append(s.Pools, Pool{Name: p.Name})
		}
	}
	return nil
}

func appliedByMigrate(p *karpv1.NodePool) bool {
	return slices.ContainsFunc(p.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "nodeless-migrate"
	})
}

func isReady(p *karpv1.NodePool) bool {
	return p.DeletionTimestamp == nil && p.StatusConditions().Root().IsTrue()
}

// findAutoscaler finds Cluster Autoscaler by its image; nil if the cluster has none.
func (t *Transition) findAutoscaler(ctx context.Context) (*Autoscaler, error) {
	list, err := t.kubernetes.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		if runsAutoscaler(d) && d.Spec.Replicas != nil {
			return &Autoscaler{Namespace: d.Namespace, Name: d.Name, Replicas: *d.Spec.Replicas}, nil
		}
	}
	return nil, nil
}

func runsAutoscaler(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		name, _, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
		return strings.HasPrefix(name, "cluster-autoscaler")
	})
}

// scaleAutoscaler sets the replicas of Cluster Autoscaler, if there is one.
func (t *Transition) scaleAutoscaler(ctx context.Context, s *State, replicas int32) error {
	a := s.Autoscaler
	if a == nil {
		return nil
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	if err := t.client.Patch(ctx, d, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("scale Deployment %s/%s: %w", a.Namespace, a.Name, err)
	}
	t.Say("Cluster Autoscaler: %d replicas", replicas)
	return nil
}

// restoreAutoscaler gives Cluster Autoscaler its replicas.
func (t *Transition) restoreAutoscaler(ctx context.Context, s *State) error {
	if s.Autoscaler == nil {
		return nil
	}
	return t.scaleAutoscaler(ctx, s, s.Autoscaler.Replicas)
}
