package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/examples"
)

// fieldOwner is the field manager of what the command itself applies.
const fieldOwner = client.FieldOwner("nodeless")

// manifest reads the objects of one of the embedded examples.
func manifest(name string) ([]*unstructured.Unstructured, error) {
	data, err := examples.FS.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read example %s: %w", name, err)
	}
	var objects []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(data)), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read example %s: %w", name, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// createMissing creates the objects of an example that do not exist, and leaves existing ones alone: their owner may
// have changed them. change, unless nil, may change an object before it is created.
func createMissing(ctx context.Context, c client.Client, name string,
	change func(*unstructured.Unstructured),
) (created int, err error) {
	objects, err := manifest(name)
	if err != nil {
		return 0, err
	}
	for _, o := range objects {
		if change != nil {
			change(o)
		}
		err := c.Create(ctx, o, fieldOwner)
		switch {
		case err == nil:
			created++
		case !exists(ctx, c, o, err):
			return created, fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return created, nil
}

// exists reports whether an object could not be created because it exists. The API server calls a Service invalid if
// its address is taken, even by the Service itself.
func exists(ctx context.Context, c client.Client, o *unstructured.Unstructured, err error) bool {
	if apierrors.IsInvalid(err) {
		return c.Get(ctx, client.ObjectKeyFromObject(o), o) == nil
	}
	return apierrors.IsAlreadyExists(err)
}

// apply brings the objects of an example into the state that its file describes.
func apply(ctx context.Context, c client.Client, name string) error {
	objects, err := manifest(name)
	if err != nil {
		return err
	}
	for _, o := range objects {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
