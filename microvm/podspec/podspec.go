// Package podspec translates pods of the Kubernetes API for a microVM's guest, and the guest's report on its
// containers into a pod status as a kubelet writes it. It resolves references and expands variables.
//
// It makes no decisions and performs no I/O of its own: Objects provides the objects that pods refer to, and Images
// the configurations of images.
package podspec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/wire"
)

// ErrMissing is wrapped by errors about an object or key that a pod refers to and that does not exist yet.
var ErrMissing = errors.New("not found")

// ContainerError is an error of one container.
type ContainerError struct {
	Name string
	Err  error
}

func (e *ContainerError) Error() string { return fmt.Sprintf("container %s: %v", e.Name, e.Err) }

func (e *ContainerError) Unwrap() error { return e.Err }

// Objects looks up the objects that pods refer to. For an object that does not exist, it returns the API server's
// error.
type Objects interface {
	ConfigMap(namespace, name string) (*corev1.ConfigMap, error)
	Secret(namespace, name string) (*corev1.Secret, error)
	// Token returns a token of the pod's service account.
	Token(ctx context.Context, pod *corev1.Pod, audience string, lifetime time.Duration) (string, error)
}

// Image combines an image's configuration with that of its container.
type Image interface {
	Process(image.Container) (image.Process, error)
}

// Options are what a translation needs besides the pod.
type Options struct {
	Objects Objects
	// Images are the containers' images, by container.
	Images map[string]Image
	// Disks are the serials of the images' disks, by container.
	Disks map[string]string
	// ImageVolumes are the serials of the disks of image volumes, by volume.
	ImageVolumes map[string]string
	// Services are the variables of Services, as NAME=value, which a container's own variables override.
	Services []string
	// CPUMilli and MemoryBytes are the guest's size: the limits of a container without limits in the downward API.
	CPUMilli, MemoryBytes int64
	// PodIP and HostIP are for the downward API; "" while unknown.
	PodIP, HostIP string
}

// backoff is the kubelet's back-off of restarts (pkg/kubelet, Kubernetes 1.36).
var backoff = wire.Backoff{Initial: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute}

// Spec translates a pod for its guest. The host adds its own part: identity, disks, addresses. Errors name the part
// of the pod that cannot be translated; see ErrMissing.
func Spec(ctx context.Context, pod *corev1.Pod, o Options) (wire.Pod, error) {
	out := wire.Pod{
		Hostname: hostname(pod), RestartPolicy: wire.RestartPolicy(pod.Spec.RestartPolicy), Backoff: backoff,
		HostPID: pod.Spec.HostPID, ShareProcessNamespace: ptr.Deref(pod.Spec.ShareProcessNamespace, false),
		GracePeriod: time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 30)) * time.Second,
	}
	if s := pod.Spec.SecurityContext; s != nil {
		out.FSGroup = s.FSGroup
		for _, ctl := range s.Sysctls {
			if out.Sysctls == nil {
				out.Sysctls = map[string]string{}
			}
			out.Sysctls[ctl.Name] = ctl.Value
		}
	}
	out.Network.FQDN = ptr.Deref(pod.Spec.SetHostnameAsFQDN, false)
	for _, a := range pod.Spec.HostAliases {
		out.Network.Hosts = append(out.Network.Hosts, wire.HostAlias{IP: a.IP, Names: a.Hostnames})
	}
	t := translation{ctx, pod, o}
	var err error
	if out.Volumes, err = Volumes(ctx, pod, o); err != nil {
		return out, err
	}
	for _, list := range []struct {
		kind       wire.ContainerKind
		containers []corev1.Container
	}{{wire.KindInit, pod.Spec.InitContainers}, {wire.KindRegular, pod.Spec.Containers}} {
		for i := range list.containers {
			c, err := t.container(&list.containers[i], list.kind)
			if err != nil {
				return out, &ContainerError{list.containers[i].Name, err}
			}
			out.Containers = append(out.Containers, c)
		}
	}
	return out, nil
}

// Ephemeral translates an ephemeral container of a pod whose guest is running.
func Ephemeral(ctx context.Context, pod *corev1.Pod, c *corev1.EphemeralContainer, o Options) (wire.Container, error) {
	out, err := translation{ctx, pod, o}.container((*corev1.Container)(&c.EphemeralContainerCommon), wire.KindEphemeral)
	out.Target = c.TargetContainerName
	return out, err
}

// Volumes returns the pod's volumes with their current files, and with an error those that can be read. Of the options
// it uses Objects, ImageVolumes, sizes and addresses.
func Volumes(ctx context.Context, pod *corev1.Pod, o Options) ([]wire.Volume, error) {
	t := translation{ctx, pod, o}
	var out []wire.Volume
	var failed []error
	for i := range pod.Spec.Volumes {
		v, err := t.volume(&pod.Spec.Volumes[i])
		if err != nil {
			failed = append(failed, fmt.Errorf("volume %s: %w", pod.Spec.Volumes[i].Name, err))
			continue
		}
		out = append(out, v)
	}
	return out, errors.Join(failed...)
}

// hostname returns a pod's host name: its hostnameOverride unchanged, or a name cut to 63 characters.
func hostname(pod *corev1.Pod) string {
	if pod.Spec.HostnameOverride != nil {
		return *pod.Spec.HostnameOverride
	}
	name := cmp.Or(pod.Spec.Hostname, pod.Name)
	return name[:min(len(name), 63)]
}

// translation is the translation of one pod.
type translation struct {
	ctx context.Context
	pod *corev1.Pod
	o   Options
}

// missing returns the error for an object or key that does not exist. The kind is in lower case, as a kubelet writes
// it.
func missing(kind, name string) error { return fmt.Errorf("%s %q %w", kind, name, ErrMissing) }

// settings returns a ConfigMap's data for variables, nil if it does not exist and is optional. As in a kubelet,
// binaryData is no source of variables (pkg/kubelet/kubelet_pods.go, Kubernetes 1.36).
func (t translation) settings(name string, optional *bool) (map[string][]byte, error) {
	return t.configMapData(name, optional, false)
}

// configMap returns all data of a ConfigMap for files, nil if it does not exist and is optional.
func (t translation) configMap(name string, optional *bool) (map[string][]byte, error) {
	return t.configMapData(name, optional, true)
}

func (t translation) configMapData(name string, optional *bool, binary bool) (map[string][]byte, error) {
	c, err := t.o.Objects.ConfigMap(t.pod.Namespace, name)
	if err != nil {
		return nil, absent("configmap", name, optional, err)
	}
	data := map[string][]byte{}
	if binary {
		maps.Copy(data, c.BinaryData)
	}
	for k, v := range c.Data {
		data[k] = []byte(v)
	}
	return data, nil
}

// secret returns the data of a Secret, nil if it does not exist and is optional.
func (t translation) secret(name string, optional *bool) (map[string][]byte, error) {
	s, err := t.o.Objects.Secret(t.pod.Namespace, name)
	if err != nil {
		return nil, absent("secret", name, optional, err)
	}
	return s.Data, nil
}

// absent returns the error for an object that could not be read, nil if it does not exist and is optional.
func absent(kind, name string, optional *bool, err error) error {
	switch {
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read %s %q: %w", kind, name, err)
	case ptr.Deref(optional, false):
		return nil
	}
	return missing(kind, name)
}
