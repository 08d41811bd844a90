package host

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// UntilProfiles is for Options.Wanted: it returns when there is a FargateProfile.
func UntilProfiles(config *rest.Config) (func(context.Context) error, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("microVM host: %w", err)
	}
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			if there, err := awaitProfile(ctx, c); there && err == nil {
				return nil
			}
			pause(ctx, firstProbe/10) // the API server is away, or the watch has ended
		}
		return ctx.Err()
	}, nil
}

// awaitProfile waits for a profile for as long as a watch lasts.
func awaitProfile(ctx context.Context, c client.WithWatch) (there bool, err error) {
	var list v1alpha1.FargateProfileList
	if err := c.List(ctx, &list); err != nil || len(list.Items) > 0 {
		return len(list.Items) > 0, err
	}
	w, err := c.Watch(ctx, &v1alpha1.FargateProfileList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Added {
			return true, nil
		}
	}
	return false, nil
}
