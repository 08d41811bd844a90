package host

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodeless/nodeless/microvm/image"
)

// pull pulls the images of a pod one after the other, as a kubelet does, and returns them by container. It returns
// false if the microVM must end first.
func (m *microVM) pull(pod *corev1.Pod) (map[string]*image.Image, bool) {
	got := map[string]*image.Image{}
	for c := range containers(pod) {
		i := m.pullOne(pod, c)
		if i == nil {
			break
		}
		got[c.Name] = i
		m.hold(i)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Image == nil {
			continue
		}
		// As with a kubelet, containers wait for the images of volumes too, and their states say why.
		i := m.pullOne(pod, &corev1.Container{Image: v.Image.Reference, ImagePullPolicy: v.Image.PullPolicy})
		if i == nil {
			break
		}
		got[imageVolume+v.Name] = i
		m.hold(i)
	}
	if m.ctx.Err() != nil {
		m.release()
		return nil, false
	}
	return got, true
}

// imageVolume is the prefix of an image volume's name in maps that are otherwise keyed by container name.
const imageVolume = "volume/"

// hold keeps an image until release. The containers stop reporting that they wait for it.
func (m *microVM) hold(i *image.Image) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images = append(m.images, i)
	m.waiting = nil
}

// pullOne pulls a container's image, retrying until it succeeds. It returns nil if the microVM must end first.
func (m *microVM) pullOne(pod *corev1.Pod, c *corev1.Container) *image.Image {
	event := func(kind, reason, format string, args ...any) {
		m.h.event(pod, c.Name, kind, reason, fmt.Sprintf(format, args...))
	}
	p := m.h.o.Pauses
	for wait := p.FirstPull; ; wait = min(2*wait, p.MaxPull) {
		i, err := m.pullNow(pod, c)
		switch {
		case m.ctx.Err() != nil:
			if err == nil {
				i.Release()
			}
			return nil
		case err == nil && i.Pulled:
			event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q (%d bytes as a disk)", c.Image, i.DiskBytes)
			return i
		case err == nil:
			event(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", c.Image)
			return i
		}
		reason := pullReason(err)
		m.setWaiting(pod, c.Name, corev1.ContainerStateWaiting{Reason: reason, Message: err.Error()})
		event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", c.Image, err)
		event(corev1.EventTypeWarning, "Failed", "Error: %s", reason)
		if !pause(m.ctx, wait/5) {
			return nil
		}
		if reason == errImagePull {
			m.setWaiting(pod, c.Name, corev1.ContainerStateWaiting{
				Reason:  "ImagePullBackOff",
				Message: fmt.Sprintf("Back-off pulling image %q: %s: %v", c.Image, reason, err),
			})
			event(corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", c.Image)
		}
		if !pause(m.ctx, wait/5*4) {
			return nil
		}
	}
}

func (m *microVM) pullNow(pod *corev1.Pod, c *corev1.Container) (*image.Image, error) {
	keyring, err := m.keyring(pod)
	if err != nil {
		return nil, err
	}
	return m.h.images.Pull(m.ctx, image.Request{
		Reference: c.Image, Policy: image.Policy(c.ImagePullPolicy), Keyring: keyring,
	})
}

// keyring returns the credentials of a pod's imagePullSecrets. Like a kubelet, it skips a Secret that does not exist:
// the image may be public.
func (m *microVM) keyring(pod *corev1.Pod) (image.Keyring, error) {
	var secrets []corev1.Secret
	for _, ref := range pod.Spec.ImagePullSecrets {
		s, err := m.h.objects.Secret(pod.Namespace, ref.Name)
		switch {
		case apierrors.IsNotFound(err):
			m.h.event(pod, "", corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.",
					ref.Name))
		case err != nil:
			return nil, fmt.Errorf("read pull secret %q: %w", ref.Name, err)
		default:
			secrets = append(secrets, *s)
		}
	}
	return image.NewKeyring(secrets, nil)
}

const errImagePull = "ErrImagePull"

// pullReason returns the kubelet's reason for an image that cannot be pulled.
func pullReason(err error) string {
	switch {
	case errors.Is(err, image.ErrName):
		return "InvalidImageName"
	case errors.Is(err, image.ErrNeverPull):
		return "ErrImageNeverPull"
	}
	return errImagePull
}
