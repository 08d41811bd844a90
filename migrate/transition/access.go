package transition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"
)

// When EKS deletes the last managed node group with a role, it removes the role from the ConfigMap aws-auth, and all
// other nodes with that role become NotReady (EKS user guide, "Delete a managed node group from your cluster";
// https://github.com/aws/containers-roadmap/issues/755). Those of an EC2NodeClass usually have that role.

// Access is how the nodes with a role log in to the cluster.
type Access struct {
	Role     string           `json:"role"`               // its ARN
	Mappings []map[string]any `json:"mappings,omitempty"` // entries of aws-auth
	Entry    string           `json:"entry,omitempty"`    // the type of its access entry, "" = it has none
}

// The ConfigMap that maps IAM roles to users of Kubernetes, and its key (EKS user guide, "Grant IAM users access to
// Kubernetes with a ConfigMap").
const (
	authMap  = "aws-auth"
	mapRoles = "mapRoles"
)

// access reads and restores how nodes log in to the cluster.
type access struct {
	groups *groups
	maps   typedv1.ConfigMapInterface // of kube-system
	say    func(format string, args ...any)
}

func accessOf(t *Transition) access {
	return access{t.groups, t.kubernetes.CoreV1().ConfigMaps(metav1.NamespaceSystem), t.Say}
}

// record writes to a state how the nodes with the roles of EKS's node groups log in, unless it says that already.
func (x access) record(ctx context.Context, s *State) error {
	for i := range s.Groups {
		if s.Groups[i].Nodegroup == "" {
			continue
		}
		in, err := nodegroupDefinition(&s.Groups[i])
		if err != nil {
			return err
		}
		role := aws.ToString(in.NodeRole)
		if role == "" || slices.ContainsFunc(s.Access, func(a Access) bool { return a.Role == role }) {
			continue
		}
		a, err := x.find(ctx, role)
		if err != nil {
			return err
		}
		s.Access = append(s.Access, a)
	}
	return nil
}

// find returns how the nodes with a role log in now.
func (x access) find(ctx context.Context, role string) (Access, error) {
	a := Access{Role: role}
	_, entries, err := x.roles(ctx)
	if err != nil {
		return a, err
	}
	for _, e := range entries {
		if arn, _ := e["rolearn"].(string); roleName(arn) == roleName(role) {
			a.Mappings = append(a.Mappings, e)
		}
	}
	k, err := x.groups.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &x.groups.cluster})
	if err != nil {
		return a, fmt.Errorf("eks:DescribeCluster %s: %w", x.groups.cluster, err)
	}
	if c := k.Cluster.AccessConfig; c == nil || c.AuthenticationMode == ekstypes.AuthenticationModeConfigMap {
		return a, nil
	}
	if k.Cluster.AccessConfig.AuthenticationMode == ekstypes.AuthenticationModeApi {
		a.Mappings = nil // without effect
	}
	a.Entry, err = x.groups.accessEntry(ctx, role)
	return a, err
}

// roleName returns the name in a role's ARN. The ARNs in aws-auth have no path.
func roleName(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

// restore restores what EKS has removed since it was recorded. Of a mapping and an access entry, one is enough.
func (x access) restore(ctx context.Context, s *State) error {
	for _, a := range s.Access {
		if len(a.Mappings) > 0 {
			if err := x.restoreMappings(ctx, a); err != nil {
				return err
			}
			continue
		}
		if a.Entry == "" {
			continue
		}
		now, err := x.groups.accessEntry(ctx, a.Role)
		if err == nil && now == "" {
			if err = x.groups.createAccessEntry(ctx, a); err == nil {
				x.say("role %s: access entry created again", roleName(a.Role))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreMappings adds the mappings that aws-auth lacks.
func (x access) restoreMappings(ctx context.Context, a Access) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		auth, entries, err := x.roles(ctx)
		if err != nil {
			return err
		}
		before := len(entries)
		for _, m := range a.Mappings {
			if !slices.ContainsFunc(entries, func(e map[string]any) bool {
				return e["rolearn"] == m["rolearn"] && e["username"] == m["username"]
			}) {
				entries = append(entries, m)
			}
		}
		if len(entries) == before {
			return nil
		}
		text, err := yaml.Marshal(entries)
		if err != nil {
			return err
		}
		auth.Data = maps.Clone(auth.Data)
		if auth.Data == nil {
			auth.Data = map[string]string{}
		}
		auth.Data[mapRoles] = string(text)
		if auth.ResourceVersion == "" && auth.UID == "" {
			_, err = x.maps.Create(ctx, auth, metav1.CreateOptions{})
		} else {
			_, err = x.maps.Update(ctx, auth, metav1.UpdateOptions{})
		}
		if err == nil {
			x.say("role %s: mapped again in the ConfigMap aws-auth", roleName(a.Role))
		}
		return err
	})
}

// roles reads the ConfigMap aws-auth, a new one if it does not exist, and its entries for roles.
func (x access) roles(ctx context.Context) (*corev1.ConfigMap, []map[string]any, error) {
	auth, err := x.maps.Get(ctx, authMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authMap}}, nil, nil
	}
	var entries []map[string]any
	if err == nil {
		err = yaml.Unmarshal([]byte(auth.Data[mapRoles]), &entries)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ConfigMap kube-system/%s: %s: %w", authMap, mapRoles, err)
	}
	return auth, entries, nil
}

// accessEntry returns the type of a role's access entry, "" if it has none.
func (g *groups) accessEntry(ctx context.Context, role string) (string, error) {
	out, err := g.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: &g.cluster, PrincipalArn: &role})
	if _, missing := errors.AsType[*ekstypes.ResourceNotFoundException](err); missing {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("eks:DescribeAccessEntry of %s: %w", role, err)
	}
	return aws.ToString(out.AccessEntry.Type), nil
}

// createAccessEntry creates an access entry, unless it exists.
func (g *groups) createAccessEntry(ctx context.Context, a Access) error {
	_, err := g.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
		ClusterName: &g.cluster, PrincipalArn: &a.Role, Type: &a.Entry,
	})
	if _, exists := errors.AsType[*ekstypes.ResourceInUseException](err); exists || err == nil {
		return nil
	}
	return fmt.Errorf("eks:CreateAccessEntry of %s: %w", a.Role, err)
}
