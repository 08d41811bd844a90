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
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/wire"
)

// ErrMissing is wrapped by errors about an object or key that a pod refers to and that does not exist yet.
var ErrMissing = errors.New("not found")

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
	// Network is how the pod resolves names, and the domain of its host name.
	Network wire.Network
	// Services are the variables of Services, as NAME=value, which a container's own variables override.
	Services []string
	// CPUMilli and MemoryBytes are the guest's size: the limits of a container without limits in the downward API.
	CPUMilli, MemoryBytes int64
	// PodIP and HostIP are for the downward API; "" while unknown.
	PodIP, HostIP string
}

// backoff is the kubelet's back-off of restarts (pkg/kubelet, Kubernetes 1.36).
var backoff = wire.Backoff{Initial: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute}

const maxHostname = 63 // characters

// Spec translates a pod for its guest. The host adds its own part: identity, disks, addresses. As with a kubelet, a
// volume that cannot be translated is an error of the whole pod, and a container is Held and delays no other.
func Spec(ctx context.Context, pod *corev1.Pod, o Options) (wire.Pod, error) {
	out := wire.Pod{
		Hostname: hostname(pod), Network: network(pod, o), RestartPolicy: wire.RestartPolicy(pod.Spec.RestartPolicy),
		Backoff: backoff, HostPID: pod.Spec.HostPID, ShareProcessNamespace: ptr.Deref(pod.Spec.ShareProcessNamespace, false),
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
	out.Limits = podLimits(pod)
	for _, a := range pod.Spec.HostAliases {
		out.Network.Hosts = append(out.Network.Hosts, wire.HostAlias{IP: a.IP, Names: a.Hostnames})
	}
	var err error
	if out.Volumes, err = Volumes(ctx, pod, o); err != nil {
		return out, err
	}
	for c := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
		made, _ := Container(ctx, pod, c.Name, o) // its error is why it is Held
		out.Containers = append(out.Containers, made)
	}
	return out, nil
}

// kinds are the kinds of containers, by their list in the pod.
var kinds = map[podutil.ContainerType]wire.ContainerKind{
	podutil.InitContainers: wire.KindInit, podutil.Containers: wire.KindRegular,
	podutil.EphemeralContainers: wire.KindEphemeral,
}

// Container translates a container of a pod, which may be an ephemeral one. With an error the container is Held, and
// has what its pod alone determines; see ErrMissing and ErrCreate.
func Container(ctx context.Context, pod *corev1.Pod, name string, o Options) (wire.Container, error) {
	for c, list := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		if c.Name != name {
			continue
		}
		out, err := translation{ctx, pod, o}.container(c, kinds[list])
		for _, e := range pod.Spec.EphemeralContainers {
			if e.Name == name {
				out.Target = e.TargetContainerName
			}
		}
		if err != nil {
			out.Held = &wire.Held{Reason: "CreateContainerConfigError", Message: err.Error()}
			if errors.Is(err, ErrCreate) {
				out.Held.Reason = "CreateContainerError"
			}
		}
		return out, err
	}
	return wire.Container{}, missing("container", name)
}

// Volumes returns the pod's volumes with their current files, and with an error those that can be read. Of the options
// it uses Objects, ImageVolumes, sizes and addresses.
func Volumes(ctx context.Context, pod *corev1.Pod, o Options) ([]wire.Volume, error) {
	t := translation{ctx, pod, o}
	var out []wire.Volume
	var failed []error
	for i := range pod.Spec.Volumes {
		v, err := t.volume(&pod.Spec.Volumes[i])
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("volume %s: %w", pod.Spec.Volumes[i].Name, err))
		case pod.Spec.Volumes[i].Image == nil || v.Disk != "": // for an image, those wait that mount it
			out = append(out, v)
		}
	}
	return out, errors.Join(failed...)
}

// hostname returns a pod's host name, cut as by a kubelet.
func hostname(pod *corev1.Pod) string {
	name := ptr.Deref(pod.Spec.HostnameOverride, cmp.Or(pod.Spec.Hostname, pod.Name))
	if len(name) > maxHostname {
		return strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

// fullHostname returns the pod's host name as its kernel has it.
func (t translation) fullHostname() string {
	return wire.Pod{Hostname: hostname(t.pod), Network: network(t.pod, t.o)}.KernelHostname()
}

// network returns the pod's network as far as it is known before its host has an address for it.
func network(pod *corev1.Pod, o Options) wire.Network {
	out := o.Network
	out.FQDN = ptr.Deref(pod.Spec.SetHostnameAsFQDN, false)
	return out
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
