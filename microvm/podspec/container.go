package podspec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/qos"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/wire"
)

// all stands for every capability.
const all = "ALL"

// container translates a container for the guest.
func (t translation) container(c *corev1.Container, kind wire.ContainerKind) (wire.Container, error) {
	if kind == wire.KindInit && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		kind = wire.KindSidecar
	}
	out := wire.Container{
		Name: c.Name, Kind: kind, Disk: t.o.Disks[c.Name], TTY: c.TTY, Stdin: c.Stdin, StdinOnce: c.StdinOnce,
		TerminationMessagePath: c.TerminationMessagePath,
		FallbackToLogs:         c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError,
		Limits:                 Limits(t.pod, c, t.o.MemoryBytes),
		RestartPolicy:          wire.RestartPolicy(ptr.Deref(c.RestartPolicy, "")),
		RestartRules:           restartRules(c),
	}
	img, ok := t.o.Images[c.Name]
	if !ok {
		return out, errors.New("its image was not pulled")
	}
	vars, err := t.environment(c)
	if err != nil {
		return out, err
	}
	security := effectiveSecurity(t.pod.Spec.SecurityContext, c.SecurityContext)
	process, err := img.Process(image.Container{
		Command: vars.expandAll(c.Command), Args: vars.expandAll(c.Args),
		Env:        append([]string{"HOSTNAME=" + t.fullHostname()}, vars.list()...),
		WorkingDir: c.WorkingDir, RunAsUser: security.RunAsUser, RunAsGroup: security.RunAsGroup,
		RunAsNonRoot: ptr.Deref(security.RunAsNonRoot, false),
	})
	if err != nil {
		return out, err
	}
	if out.StopSignal, err = stopSignal(c, process.StopSignal); err != nil {
		return out, err
	}
	out.Args, out.Env, out.EnvFiles, out.WorkingDir = process.Argv, process.Env, vars.files, process.Dir
	if c.TTY && !slices.ContainsFunc(out.Env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }) {
		out.Env = append([]string{"TERM=xterm"}, out.Env...) // as with containerd
	}
	out.User = wire.User{
		UID: int64(process.UID), GID: int64(process.GID),
		Groups: groups(t.pod.Spec.SecurityContext, process.Groups),
	}
	if err := t.secure(&security, &out); err != nil {
		return out, err
	}
	if out.Mounts, err = t.mounts(c, &vars); err != nil {
		return out, err
	}
	lifecycle(c, &out)
	return out, nil
}

// secure adds what a container may do.
func (t translation) secure(security *corev1.SecurityContext, out *wire.Container) (err error) {
	out.Privileged, out.ReadOnlyRoot = ptr.Deref(security.Privileged, false),
		ptr.Deref(security.ReadOnlyRootFilesystem, false)
	out.NoNewPrivileges = security.AllowPrivilegeEscalation != nil && !*security.AllowPrivilegeEscalation
	out.Capabilities = capabilities(security.Capabilities)
	out.Seccomp, err = seccomp(security, out.Capabilities)
	return err
}

// mounts returns the volumes, and parts of volumes, that a container mounts.
func (t translation) mounts(c *corev1.Container, vars *variables) (out []wire.Mount, err error) {
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		sub, err := subPath(m, vars)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.MountPath, err)
		}
		disk := t.o.ImageVolumes[m.Name]
		if disk == "" && t.volumeIs(m.Name, func(v *corev1.Volume) bool { return v.Image != nil }) {
			return nil, fmt.Errorf("the image of its volume %s was not pulled", m.Name)
		}
		out = append(out, wire.Mount{
			Volume: m.Name, Disk: disk, Path: m.MountPath, SubPath: sub, Recursive: recursive(m),
			// As with a kubelet, files of the cluster or an image are only read.
			ReadOnly: m.ReadOnly || t.volumeIs(m.Name, func(v *corev1.Volume) bool { return v.EmptyDir == nil }),
		})
	}
	return out, nil
}

// Limits returns the limits of a container in a guest with memoryBytes of memory. As with a kubelet, one that it does
// not have is the pod's (getMemoryLimit and getCPULimit in pkg/kubelet/kuberuntime, Kubernetes 1.36).
func Limits(pod *corev1.Pod, c *corev1.Container, memoryBytes int64) wire.Limits {
	ofPod := podLimits(pod)
	return wire.Limits{
		MemoryBytes:   cmp.Or(c.Resources.Limits.Memory().Value(), ofPod.MemoryBytes),
		CPUMilli:      cmp.Or(c.Resources.Limits.Cpu().MilliValue(), ofPod.CPUMilli),
		CPUShareMilli: c.Resources.Requests.Cpu().MilliValue(),
		OOMScoreAdj:   qos.GetContainerOOMScoreAdjust(pod, c, memoryBytes),
	}
}

// podLimits returns the limits of all containers together.
func podLimits(pod *corev1.Pod) wire.Limits {
	if pod.Spec.Resources == nil {
		return wire.Limits{}
	}
	limits := pod.Spec.Resources.Limits
	return wire.Limits{MemoryBytes: limits.Memory().Value(), CPUMilli: limits.Cpu().MilliValue()}
}

// recursive reports whether what is mounted below a read-only volume is read-only, too.
func recursive(m *corev1.VolumeMount) bool {
	return m.ReadOnly && m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled
}

// subPath returns the part of a volume to mount.
func subPath(m *corev1.VolumeMount, v *variables) (string, error) {
	sub := m.SubPath
	if m.SubPathExpr != "" {
		var unknown []string
		if sub, unknown = v.expand(m.SubPathExpr); len(unknown) > 0 {
			return "", fmt.Errorf("its subPathExpr %q has variables without a value: %s", m.SubPathExpr,
				strings.Join(unknown, ", "))
		}
		if strings.Contains(sub, nul) {
			return "", fmt.Errorf("its subPathExpr %q has a value from a file (fileKeyRef), which microVMs do not support; "+
				"mount the volume without it", m.SubPathExpr)
		}
	}
	switch {
	case strings.HasPrefix(sub, "/"):
		return "", fmt.Errorf("its subPath %q must not be an absolute path", sub)
	case slices.Contains(strings.Split(sub, "/"), ".."):
		return "", fmt.Errorf("its subPath %q leads out of the volume", sub)
	}
	return sub, nil
}

// volumeIs reports whether is is true of a volume.
func (t translation) volumeIs(name string, is func(*corev1.Volume) bool) bool {
	return slices.ContainsFunc(t.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name && is(&v) })
}

// lifecycle adds probes and hooks.
func lifecycle(c *corev1.Container, out *wire.Container) {
	out.StartupProbe, out.LivenessProbe, out.ReadinessProbe = probe(c, c.StartupProbe), probe(c, c.LivenessProbe),
		probe(c, c.ReadinessProbe)
	if c.Lifecycle != nil {
		out.PostStart, out.PreStop = hook(c, c.Lifecycle.PostStart), hook(c, c.Lifecycle.PreStop)
	}
}

// effectiveSecurity returns a container's security context, with the pod's as defaults.
func effectiveSecurity(pod *corev1.PodSecurityContext, container *corev1.SecurityContext) corev1.SecurityContext {
	var out corev1.SecurityContext
	if container != nil {
		out = *container
	}
	if pod == nil {
		return out
	}
	out.RunAsUser, out.RunAsGroup = cmp.Or(out.RunAsUser, pod.RunAsUser), cmp.Or(out.RunAsGroup, pod.RunAsGroup)
	out.RunAsNonRoot = cmp.Or(out.RunAsNonRoot, pod.RunAsNonRoot)
	out.SeccompProfile = cmp.Or(out.SeccompProfile, pod.SeccompProfile)
	return out
}

// groups returns the supplementary groups: the pod's, and the image's unless the pod's policy is Strict.
func groups(pod *corev1.PodSecurityContext, ofImage []uint32) []int64 {
	var out []int64
	strict := pod != nil && pod.SupplementalGroupsPolicy != nil &&
		*pod.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict
	if !strict {
		for _, g := range ofImage {
			out = append(out, int64(g))
		}
	}
	if pod != nil {
		out = append(out, pod.SupplementalGroups...)
		if pod.FSGroup != nil {
			out = append(out, *pod.FSGroup)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// capabilities returns a container's capabilities, sorted. As with containerd, ALL is first added, then dropped; then
// single ones are added to those that are left, or to the default ones, and dropped.
func capabilities(c *corev1.Capabilities) []string {
	have := sets.New[string]()
	for _, name := range fargate.RuntimeCapabilities {
		have.Insert(string(name))
	}
	if c == nil {
		return sets.List(have)
	}
	if has(c.Add, all) {
		have.Insert(wire.Capabilities...)
	}
	if has(c.Drop, all) {
		have.Clear()
	}
	for _, name := range c.Add {
		have.Insert(plain(name))
	}
	for _, name := range c.Drop {
		have.Delete(plain(name))
	}
	return sets.List(have.Delete(all))
}

// plain returns a capability's name without the kernel's prefix.
func plain(c corev1.Capability) string { return strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_") }

func has(list []corev1.Capability, name string) bool {
	return slices.ContainsFunc(list, func(c corev1.Capability) bool { return plain(c) == name })
}

// Real-time signals as C libraries number them: they reserve the first two for themselves.
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// stopSignal returns the number of the signal that stops a container: the pod's choice, else its image's; 0 if neither
// has one.
func stopSignal(c *corev1.Container, ofImage string) (int, error) {
	name := ofImage
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		name = string(*c.Lifecycle.StopSignal)
	}
	if name == "" {
		return 0, nil
	}
	n := signalNumber(name)
	if n < 1 || n > lastRealTime {
		return 0, fmt.Errorf("unknown stop signal %q; use a name such as SIGTERM or a number from 1 to %d", name,
			lastRealTime)
	}
	return n, nil
}

// signalNumber parses SIGQUIT, QUIT, SIGRTMIN+3, SIGRTMAX-1 and 3. It returns 0 for anything else.
func signalNumber(name string) int {
	if n, err := strconv.Atoi(name); err == nil {
		return n
	}
	name = "SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for prefix, from := range map[string]int{"SIGRTMIN": firstRealTime, "SIGRTMAX": lastRealTime} {
		if offset, ok := strings.CutPrefix(name, prefix); ok {
			if offset == "" {
				return from
			}
			n, err := strconv.Atoi(offset)
			if err != nil || from+n < firstRealTime || from+n > lastRealTime {
				return 0
			}
			return from + n
		}
	}
	return int(unix.SignalNum(name))
}
