package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// How much of each container's logs is read.
const (
	logLines = 500
	logBytes = 1 << 20
)

// Logs reads the newest logs of a pod's containers with the rights of a user. If the pod has several containers, the
// logs of each have a title.
func Logs(cfg *rest.Config) (func(ctx context.Context, namespace, pod string) (string, error), error) {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of logs: %w", err)
	}
	return func(ctx context.Context, namespace, name string) (string, error) {
		pods := kube.CoreV1().Pods(namespace)
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		var all strings.Builder
		containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
		for i := range containers {
			text, err := pods.GetLogs(name, &corev1.PodLogOptions{
				Container: containers[i].Name, TailLines: ptr.To[int64](logLines), LimitBytes: ptr.To[int64](logBytes),
			}).DoRaw(ctx)
			if err != nil {
				text = []byte(err.Error() + "\n")
			}
			if len(containers) > 1 {
				fmt.Fprintf(&all, "container %s:\n%s\n", containers[i].Name, cmp.Or(string(text), "(no logs)\n"))
				continue
			}
			all.Write(text)
		}
		return all.String(), nil
	}, nil
}
