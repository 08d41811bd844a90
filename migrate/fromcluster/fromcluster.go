// Package fromcluster reads from a live cluster what package migrate migrates. It only lists.
package fromcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/migrate"
)

// page is the number of objects in one list request.
const page = 500

// resource is a kind to read.
type resource struct {
	schema.GroupVersionResource
	current string   // a version whose objects need no migration: if it is served, none are read
	named   []string // the only names that matter
	some    bool     // only those that concern the migration
}

func of(group, version, name string) resource {
	return resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: name}}
}

func (r resource) unless(version string) resource {
	r.current = version
	return r
}

func (r resource) only(names ...string) resource {
	r.named = names
	return r
}

func (r resource) concerned() resource {
	r.some = true
	return r
}

// resources are those of Karpenter since its first API, Cluster Autoscaler's, and workloads whose pods may use the
// labels and annotations of that time. Pods and Jobs cannot be changed and are left to their owners.
var resources = []resource{
	of("karpenter.sh", "v1alpha5", "provisioners"),
	of("karpenter.sh", "v1alpha5", "machines"),
	of("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates"),
	of("karpenter.sh", "v1beta1", "nodepools").unless("v1"),
	of("karpenter.k8s.aws", "v1beta1", "ec2nodeclasses").unless("v1"),
	of("", "v1", "configmaps").only(migrate.GlobalSettings, migrate.PriorityExpander),
	of("apps", "v1", "deployments").concerned(),
	of("apps", "v1", "statefulsets").concerned(),
	of("apps", "v1", "daemonsets").concerned(),
	of("batch", "v1", "cronjobs").concerned(),
}

// ForbiddenError names what may not be read.
type ForbiddenError struct {
	Resources []string // as kubectl names them
	err       error
}

// Error describes the problem and its remedy.
func (e *ForbiddenError) Error() string {
	names := strings.Join(e.Resources, ",")
	return fmt.Sprintf("not allowed to list %s in the whole cluster; an administrator allows it: kubectl create "+
		"clusterrole nodeless-migrate --verb=list --resource=%s && kubectl create clusterrolebinding nodeless-migrate "+
		"--clusterrole=nodeless-migrate --user=NAME (%v)", strings.Join(e.Resources, ", "), names, e.err)
}

// Unwrap returns the API server's own error.
func (e *ForbiddenError) Unwrap() error { return e.err }

// Read returns the cluster's objects that concern the migration, unchanged; there may be none. A *ForbiddenError
// names everything that may not be read.
func Read(ctx context.Context, cfg *rest.Config) (migrate.Input, error) {
	out := migrate.Input{Name: "the cluster", Live: true}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return out, err
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return out, err
	}
	var b bytes.Buffer
	var forbidden *ForbiddenError
	for _, r := range resources {
		served, err := r.served(d)
		if err == nil && served {
			err = r.list(ctx, c, &b)
		}
		switch {
		case apierrors.IsForbidden(err):
			if forbidden == nil {
				forbidden = &ForbiddenError{err: err}
			}
			forbidden.Resources = append(forbidden.Resources, r.GroupResource().String())
		case err != nil:
			return out, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
	}
	if forbidden != nil {
		return out, forbidden
	}
	out.Reader = &b
	return out, nil
}

// served reports whether the cluster has the resource, in a version that needs a migration.
func (r *resource) served(d *discovery.DiscoveryClient) (bool, error) {
	has := func(version string) (bool, error) {
		list, err := d.ServerResourcesForGroupVersion(schema.GroupVersion{Group: r.Group, Version: version}.String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && slices.ContainsFunc(list.APIResources,
			func(a metav1.APIResource) bool { return a.Name == r.Resource }), err
	}
	if r.current != "" {
		if current, err := has(r.current); current || err != nil {
			return false, err
		}
	}
	return has(r.Version)
}

// list writes the objects, each as a document.
func (r *resource) list(ctx context.Context, c dynamic.Interface, b *bytes.Buffer) error {
	names := r.named
	if names == nil {
		names = []string{""}
	}
	for _, name := range names {
		o := metav1.ListOptions{Limit: page}
		if name != "" {
			o.FieldSelector = "metadata.name=" + name
		}
		for {
			list, err := c.Resource(r.GroupVersionResource).List(ctx, o)
			if err != nil {
				return err
			}
			for i := range list.Items {
				if err := r.write(&list.Items[i], b); err != nil {
					return err
				}
			}
			if o.Continue = list.GetContinue(); o.Continue == "" {
				break
			}
		}
	}
	return nil
}

func (r *resource) write(o *unstructured.Unstructured, b *bytes.Buffer) error {
	if r.some && !migrate.Concerns(o.Object) {
		return nil
	}
	o.SetManagedFields(nil) // most of the text
	text, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	b.WriteString("---\n")
	b.Write(text)
	b.WriteByte('\n')
	return nil
}
