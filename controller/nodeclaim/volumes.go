package nodeclaim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attached names the VolumeAttachments of a Node that a drain waits for: not those of pods that stay to the end.
func (l *Lifecycle) attached(ctx context.Context, node *corev1.Node) ([]string, error) {
	var list storagev1.VolumeAttachmentList
	if err := l.o.Cache.List(ctx, &list, client.MatchingFields{byNodeName: node.Name}); err != nil {
		return nil, fmt.Errorf("list VolumeAttachments of Node %s: %w", node.Name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	pods, err := l.podsOn(ctx, l.o.Cache, node.Name)
	if err != nil {
		return nil, err
	}
	staying, err := l.volumesOf(ctx, pods)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		a := &list.Items[i]
		if name := a.Spec.Source.PersistentVolumeName; name != nil && !staying[*name] {
			out = append(out, a.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// volumesOf names the PersistentVolumes that pods use. It reads claims one by one: only pods that stay are asked about.
func (l *Lifecycle) volumesOf(ctx context.Context, pods []corev1.Pod) (map[string]bool, error) {
	out := map[string]bool{}
	for i := range pods {
		if phase := pods[i].Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			continue // it has ended: its volumes are on their way
		}
		for _, v := range pods[i].Spec.Volumes {
			var name string
			switch {
			case v.PersistentVolumeClaim != nil:
				name = v.PersistentVolumeClaim.ClaimName
			case v.Ephemeral != nil:
				name = pods[i].Name + "-" + v.Name
			default:
				continue
			}
			var claim corev1.PersistentVolumeClaim
			err := l.o.Client.Get(ctx, client.ObjectKey{Namespace: pods[i].Namespace, Name: name}, &claim)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read PersistentVolumeClaim %s/%s: %w", pods[i].Namespace, name, err)
			}
			out[claim.Spec.VolumeName] = true
		}
	}
	return out, nil
}
