package nodegroup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// ParseDiscovery parses the value of Cluster Autoscaler's flag --node-group-auto-discovery: asg:tag=KEY,KEY. Cluster
// Autoscaler ignores values of tags, too
// (github.com/kubernetes/autoscaler/cluster-autoscaler/cloudprovider/aws/README.md).
func ParseDiscovery(spec string) ([]string, error) {
	const start = "asg:tag="
	list, ok := strings.CutPrefix(spec, start)
	var keys []string
	for part := range strings.SplitSeq(list, ",") {
		key, _, _ := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); key == "" {
			ok = false
		}
		keys = append(keys, key)
	}
	if !ok {
		return nil, fmt.Errorf("%q: write %sKEY,KEY, such as %sk8s.io/cluster-autoscaler/enabled,"+
			"k8s.io/cluster-autoscaler/NAME", spec, start, start)
	}
	return keys, nil
}

// discover creates NodeGroups for the groups with the tags, and deletes those that it created for groups that are
// gone.
func (c *Controller) discover(ctx context.Context, _ string) (time.Duration, error) {
	names, err := c.o.Cloud.DiscoverGroups(ctx, c.o.Tags)
	if err != nil {
		return 0, err
	}
	var have v1alpha1.NodeGroupList
	if err := c.o.Cache.List(ctx, &have); err != nil {
		return 0, fmt.Errorf("list NodeGroups: %w", err)
	}
	found, known := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	var failed []error
	for i := range have.Items {
		g := &have.Items[i]
		name := g.Spec.AutoScalingGroupName
		known[name] = true
		if g.Labels[v1alpha1.LabelDiscovered] == "true" && !found[name] && g.DeletionTimestamp == nil {
			failed = append(failed, client.IgnoreNotFound(c.o.Client.Delete(ctx, g)))
		}
	}
	for _, name := range names {
		if !known[name] {
			failed = append(failed, c.create(ctx, name))
		}
	}
	return discoverEvery, errors.Join(failed...)
}

func (c *Controller) create(ctx context.Context, name string) error {
	g := &v1alpha1.NodeGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: objectName(name), Labels: map[string]string{v1alpha1.LabelDiscovered: "true"},
		},
		Spec: v1alpha1.NodeGroupSpec{AutoScalingGroupName: name},
	}
	if err := c.o.Client.Create(ctx, g); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create a NodeGroup for Auto Scaling group %s: %w", name, err)
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9-]+`)

// objectName returns the name of the NodeGroup for an Auto Scaling group: the group's own name if it is valid,
// otherwise one that ends with a digest of it.
func objectName(group string) string {
	const longest = 40 // the names of NodeClaims are derived from it
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(group), "-"), "-")
	if name == group && len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(group))
	digest := hex.EncodeToString(sum[:4])
	if name = strings.Trim(name[:min(len(name), longest-9)], "-"); name == "" {
		return "group-" + digest
	}
	return name + "-" + digest
}
