// Package crds installs the custom resource definitions that Nodeless works with: Karpenter's NodePool, NodeClaim,
// NodeOverlay and CapacityBuffer, and its AWS provider's EC2NodeClass, unchanged from their Go modules; and its own
// FargateProfile, MicroVMHost, MicroVM, NodeGroup and DecisionLog.
package crds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/awslabs/operatorpkg/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	karpenterapis "sigs.k8s.io/karpenter/pkg/apis"

	apicrds "github.com/nodeless/nodeless/api/crds"
)

// All returns fresh copies of the definitions, NodePool first.
func All() []*apiextensionsv1.CustomResourceDefinition {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, c := range karpenterapis.CRDs {
		all = append(all, c.DeepCopy())
	}
	return append(all, object.Unmarshal[apiextensionsv1.CustomResourceDefinition](awsapis.EC2NodeClassCRD),
		object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.FargateProfile),
		object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.DecisionLog),
		object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.MicroVMHost),
		object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.MicroVM),
		object.Unmarshal[apiextensionsv1.CustomResourceDefinition](apicrds.NodeGroup))
}

// Install creates or updates all of Nodeless's definitions and waits until the API server serves them, or ctx ends.
func Install(ctx context.Context, cfg *rest.Config) error { return Apply(ctx, cfg, All()) }

// Apply creates the given definitions, or updates those that exist and differ, and waits until each is Established.
// It is idempotent; labels and annotations that others put on a definition stay.
func Apply(ctx context.Context, cfg *rest.Config, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	c, err := clientset.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	crds := c.ApiextensionsV1().CustomResourceDefinitions()
	for _, d := range definitions {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return applyOne(ctx, c, d) })
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", d.Name, err)
		}
	}
	for _, d := range definitions {
		err := await(ctx, func() error {
			have, err := crds.Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return established(have)
		})
		if err == nil { // the API server serves a definition a moment after it is established
			err = await(ctx, func() error { return served(c.Discovery(), d) })
		}
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", d.Name, err)
		}
	}
	return nil
}

// served returns nil if discovery lists every served version of a definition.
func served(d discovery.ServerResourcesInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		list, err := d.ServerResourcesForGroupVersion(crd.Spec.Group + "/" + v.Name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.APIResources,
			func(r metav1.APIResource) bool { return r.Name == crd.Spec.Names.Plural }) {
			return errNotYet
		}
	}
	return nil
}

func applyOne(ctx context.Context, c clientset.Interface, want *apiextensionsv1.CustomResourceDefinition) error {
	crds := c.ApiextensionsV1().CustomResourceDefinitions()
	_, err := crds.Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := crds.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for k, v := range want.Annotations {
		metav1.SetMetaDataAnnotation(&have.ObjectMeta, k, v)
	}
	for k, v := range want.Labels {
		metav1.SetMetaDataLabel(&have.ObjectMeta, k, v)
	}
	conversion := have.Spec.Conversion // keep a webhook set up by others
	have.Spec = *want.Spec.DeepCopy()
	if have.Spec.Conversion == nil {
		have.Spec.Conversion = conversion
	}
	_, err = crds.Update(ctx, have, metav1.UpdateOptions{}) // the server keeps the version if nothing changed
	return err
}

var errNotYet = errors.New("not served yet")

// await calls check until it returns nil or ctx is done.
func await(ctx context.Context, check func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func established(d *apiextensionsv1.CustomResourceDefinition) error {
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
			return fmt.Errorf("%w: names not accepted: %s", errNotYet, c.Message)
		}
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return errNotYet
}
