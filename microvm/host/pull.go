package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/microvm/image"
)

// pull makes an attempt to pull each image of a pod, one after the other, as a kubelet does. Those that fail are pulled
// in the background from then on, since only the containers that use them wait. It returns false if the microVM must
// end first.
func (m *microVM) pull(pod *corev1.Pod) bool {
	var keys []string
	for c := range containers(pod) {
		keys = append(keys, c.Name)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil {
			keys = append(keys, imageVolume+v.Name)
		}
	}
	for _, key := range keys {
		if p := newPull(m, pod, key); p != nil {
			if p.attempt() {
				p.end()
			} else {
				m.h.work.Go(p.again)
			}
		}
	}
	return m.ctx.Err() == nil
}

// imageVolume is the prefix of an image volume's name in maps that are otherwise keyed by container name.
const imageVolume = "volume/"

// imageKeys returns the keys in microVM.images of what a container uses: its own image and, as with a kubelet, those of
// the volumes that it mounts (toKubeContainerImageVolumes in pkg/kubelet/kuberuntime, Kubernetes 1.36).
func imageKeys(pod *corev1.Pod, c *corev1.Container) []string {
	keys := []string{c.Name}
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil &&
			slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			keys = append(keys, imageVolume+v.Name)
		}
	}
	return keys
}

// hasAll reports whether all images that a container uses are among these.
func hasAll(images map[string]*image.Image, pod *corev1.Pod, c *corev1.Container) bool {
	return !slices.ContainsFunc(imageKeys(pod, c), func(key string) bool { return images[key] == nil })
}

// imagesOf returns those of a container's images that the microVM has. If they are needed, the pulls of those that are
// missing begin.
func imagesOf(m *microVM, pod *corev1.Pod, c *corev1.Container, needed bool) map[string]*image.Image {
	out := map[string]*image.Image{}
	for _, key := range imageKeys(pod, c) {
		if needed {
			if p := newPull(m, pod, key); p != nil {
				m.h.work.Go(p.run)
			}
		}
		m.mu.Lock()
		if i := m.images[key]; i != nil {
			out[key] = i
		}
		m.mu.Unlock()
	}
	return out
}

// imagePull pulls the image of a container, or of a volume.
type imagePull struct {
	m    *microVM
	key  string // in microVM.images
	pod  *corev1.Pod
	c    *corev1.Container // of a volume: one without a name
	wait time.Duration     // from the last attempt to the next one
	// failed is why the last attempt failed, and reason the kubelet's word for it.
	failed error
	reason string
}

// newPull returns the pull of an image, nil if the microVM has the image or already pulls it.
func newPull(m *microVM, pod *corev1.Pod, key string) *imagePull {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.images[key] != nil || m.pulling[key] {
		return nil
	}
	m.pulling[key] = true
	return &imagePull{m: m, key: key, pod: pod, wait: m.h.o.Pauses.FirstPull}
}

// end is called when nothing more is pulled.
func (p *imagePull) end() {
	p.m.mu.Lock()
	delete(p.m.pulling, p.key)
	p.m.mu.Unlock()
	p.m.poked.Set()
}

// run pulls until it succeeds or the microVM must end.
func (p *imagePull) run() {
	if p.attempt() {
		p.end()
	} else {
		p.again()
	}
}

// again pulls after a failed attempt until it succeeds or the microVM must end.
func (p *imagePull) again() {
	defer p.end()
	for p.backOff() && !p.attempt() {
	}
}

// attempt pulls once. It reports whether the microVM has the image now.
func (p *imagePull) attempt() bool {
	m := p.m
	if pod := m.current(); pod != nil { // an image can be changed
		p.pod = pod
	}
	p.c = userOf(p.pod, p.key)
	i, err := m.pullNow(p.pod, p.c)
	if err == nil {
		return p.keep(i)
	}
	if m.ctx.Err() != nil {
		return false
	}
	p.failed, p.reason = err, pullReason(err)
	p.setWaiting(corev1.ContainerStateWaiting{Reason: p.reason, Message: err.Error()})
	p.event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", p.c.Image, err)
	p.event(corev1.EventTypeWarning, "Failed", "Error: %s", p.reason)
	return false
}

// userOf returns the container that uses an image; for a volume's one without a name.
func userOf(pod *corev1.Pod, key string) *corev1.Container {
	for c := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		if c.Name == key {
			return c
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil && imageVolume+v.Name == key {
			return &corev1.Container{Image: v.Image.Reference, ImagePullPolicy: v.Image.PullPolicy}
		}
	}
	return &corev1.Container{} // no image has this name
}

// users returns the containers that use the image.
func (p *imagePull) users() (out []*corev1.Container) {
	for c := range podutil.ContainerIter(&p.pod.Spec, podutil.AllContainers) {
		if slices.Contains(imageKeys(p.pod, c), p.key) {
			out = append(out, c)
		}
	}
	return out
}

// setWaiting records why the containers that use the image wait.
func (p *imagePull) setWaiting(why corev1.ContainerStateWaiting) {
	for _, c := range p.users() {
		p.m.setWaiting(c.Name, why)
	}
}

func (p *imagePull) event(kind, reason, format string, args ...any) {
	p.m.h.event(p.pod, p.c.Name, kind, reason, fmt.Sprintf(format, args...))
}

// keep holds an image until release, and records and reports it. It returns false if the microVM must end.
func (p *imagePull) keep(i *image.Image) bool {
	m := p.m
	m.mu.Lock()
	if m.ctx.Err() != nil {
		m.mu.Unlock()
		i.Release()
		return false
	}
	m.images[p.key] = i
	m.record.Images = cloned(m.record.Images)
	m.record.Images[p.key] = imageRecord{ID: i.ID, Digest: i.Digest}
	m.mu.Unlock()
	for _, c := range p.users() {
		setHeld(m, p.pod, c.Name, nil) // one that lacks another image hears of it with the next attempt
	}
	if i.Pulled {
		p.event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q (%d bytes as a disk)", p.c.Image, i.DiskBytes)
	} else {
		p.event(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", p.c.Image)
	}
	return true
}

// backOff waits until the next attempt. It returns false if the microVM must end first.
func (p *imagePull) backOff() bool {
	m := p.m
	if !pause(m.ctx, p.wait/5) {
		return false
	}
	if p.reason == errImagePull {
		p.setWaiting(corev1.ContainerStateWaiting{
			Reason:  "ImagePullBackOff",
			Message: fmt.Sprintf("Back-off pulling image %q: %s: %v", p.c.Image, p.reason, p.failed),
		})
		p.event(corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", p.c.Image)
	}
	if !pause(m.ctx, p.wait/5*4) {
		return false
	}
	p.wait = min(2*p.wait, m.h.o.Pauses.MaxPull)
	return true
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
