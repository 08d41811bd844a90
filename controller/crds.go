package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/status"
)

// crdWait is how long Run waits for the CRDs it needs.
const crdWait = 30 * time.Second

type crd struct{ groupVersion, plural string }

// needed lists the custom resources that the controller always requires.
var needed = []crd{
	{"karpenter.sh/v1", "nodepools"},
	{"karpenter.sh/v1", "nodeclaims"},
	{"karpenter.k8s.aws/v1", "ec2nodeclasses"},
}

// neededFor adds to needed the resources that FargateProfiles, Auto Mode and open feature gates require.
func neededFor(o Options) []crd {
	out, g := slices.Clone(needed), o.Gates
	if o.AutoMode != nil {
		out = append(out, crd{eksv1.GroupVersion.String(), "nodeclasses"}, crd{eksv1.GroupVersion.String(), "cninodes"})
	}
	if len(o.NodeGroupTags) > 0 {
		out = append(out, crd{v1alpha1.GroupVersion.String(), "nodegroups"})
	}
	if o.Fargate != nil {
		for _, plural := range []string{"fargateprofiles", "microvmhosts", "microvms"} {
			out = append(out, crd{v1alpha1.GroupVersion.String(), plural})
		}
	}
	if g.CapacityBuffer {
		out = append(out, crd{"autoscaling.x-k8s.io/v1beta1", "capacitybuffers"})
	}
	if g.NodeOverlay {
		out = append(out, crd{"karpenter.sh/v1alpha1", "nodeoverlays"})
	}
	return out
}

// awaitCRDs waits until the API server serves all needed resources, for at most crdWait. The error names the missing
// ones and how to install them.
func awaitCRDs(ctx context.Context, d discovery.ServerResourcesInterface, needed []crd) error {
	wait, cancel := context.WithTimeout(ctx, crdWait)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		missing, err := missingCRDs(d, needed)
		if err == nil && len(missing) == 0 {
			return nil
		}
		select {
		case <-wait.Done():
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil:
				return fmt.Errorf("controller: which CRDs exist: %w", err)
			}
			how := "install Karpenter's CRDs: helm upgrade --install karpenter-crd " +
				"oci://public.ecr.aws/karpenter/karpenter-crd --version 1.14.1"
			if slices.ContainsFunc(missing,
				func(name string) bool { return strings.HasSuffix(name, "."+v1alpha1.GroupVersion.Group) }) {
				how = "install all that is needed: nodeless crds | kubectl apply --server-side -f -"
			}
			if slices.Contains(missing, "nodeclasses."+eksv1.GroupVersion.Group) {
				how = "install those of EKS Auto Mode: nodeless crds --auto-mode | kubectl apply --server-side -f -"
			}
			return fmt.Errorf("controller: the cluster has no CRD %s; %s", strings.Join(missing, ", "), how)
		case <-tick.C:
		}
	}
}

func missingCRDs(d discovery.ServerResourcesInterface, needed []crd) ([]string, error) {
	var missing []string
	for _, n := range needed {
		group, _, _ := strings.Cut(n.groupVersion, "/")
		list, err := d.ServerResourcesForGroupVersion(n.groupVersion)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == n.plural }):
			continue
		}
		missing = append(missing, n.plural+"."+group)
	}
	return missing, nil
}

// servedKinds returns those of the given kinds that the API server serves.
func servedKinds(d discovery.ServerResourcesInterface, kinds []status.Kind) ([]status.Kind, error) {
	var out []status.Kind
	for _, k := range kinds {
		yes, err := serves(d, k.GroupVersion().String(), k.Kind)
		if err != nil {
			return nil, err
		}
		if yes {
			out = append(out, k)
		}
	}
	return out, nil
}

// serves reports whether the API server serves a kind.
func serves(d discovery.ServerResourcesInterface, groupVersion, kind string) (bool, error) {
	list, err := d.ServerResourcesForGroupVersion(groupVersion)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("controller: whether %s of %s exists: %w", kind, groupVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }), nil
}
