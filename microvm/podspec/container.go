package podspec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/wire"
)

// runtimeCapabilities are those that a container has if it says nothing: containerd's and Docker's default.
var runtimeCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// all stands for every capability.
const all = "ALL"

// container is one container as the guest runs it.
func (t translation) container(c *corev1.Container, kind wire.ContainerKind) (wire.Container, error) {
	if kind == wire.KindInit && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		kind = wire.KindSidecar
	}
	out := wire.Container{
		Name: c.Name, Kind: kind, Disk: t.o.Disks[c.Name], TTY: c.TTY, Stdin: c.Stdin, StdinOnce: c.StdinOnce,
		TerminationMessagePath: c.TerminationMessagePath, FallbackToLogs: c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError,
		MemoryBytes: c.Resources.Limits.Memory().Value(), CPUMilli: c.Resources.Limits.Cpu().MilliValue(), CPUShareMilli: c.Resources.Requests.Cpu().MilliValue(),
	}
	img, ok := t.o.Images[c.Name]
	if !ok {
		return out, errors.New("its image was not pulled")
	}
	env, expand, err := t.environment(c)
	if err != nil {
		return out, err
	}
	security := effective(t.pod.Spec.SecurityContext, c.SecurityContext)
	process, err := img.Process(image.Container{
		Command: expanded(c.Command, expand), Args: expanded(c.Args, expand), Env: append([]string{"HOSTNAME=" + hostname(t.pod)}, env...),
		WorkingDir: c.WorkingDir, RunAsUser: security.RunAsUser, RunAsGroup: security.RunAsGroup, RunAsNonRoot: isTrue(security.RunAsNonRoot),
	})
	if err != nil {
		return out, err
	}
	uid, gid := int64(process.UID), int64(process.GID)
	if out.StopSignal, err = stopSignal(c, process.StopSignal); err != nil {
		return out, err
	}
	out.Args, out.Env, out.WorkingDir = process.Argv, process.Env, process.Dir
	out.User = wire.User{UID: &uid, GID: &gid, NonRoot: isTrue(security.RunAsNonRoot), Groups: groups(t.pod.Spec.SecurityContext, process.Groups)}
	out.Privileged, out.ReadOnlyRoot = isTrue(security.Privileged), isTrue(security.ReadOnlyRootFilesystem)
	out.NoNewPrivileges = security.AllowPrivilegeEscalation != nil && !*security.AllowPrivilegeEscalation
	out.Capabilities = capabilities(security.Capabilities)
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expand(m.SubPathExpr)
		}
		if slices.Contains(strings.Split(sub, "/"), "..") {
			return out, fmt.Errorf("mount %s: its subPath %q leads out of the volume", m.MountPath, sub)
		}
		out.Mounts = append(out.Mounts, wire.Mount{Volume: m.Name, Path: m.MountPath, SubPath: sub, ReadOnly: m.ReadOnly || t.holdsFiles(m.Name)})
	}
	if err := t.lifecycle(c, &out); err != nil {
		return out, err
	}
	return out, nil
}

// holdsFiles says whether a volume's files are the cluster's: containers only read them, as kubelets have it.
func (t translation) holdsFiles(volume string) bool {
	return slices.ContainsFunc(t.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume && v.EmptyDir == nil })
}

// lifecycle adds probes and hooks.
func (t translation) lifecycle(c *corev1.Container, out *wire.Container) error {
	var failed []error
	for _, p := range []struct {
		name string
		from *corev1.Probe
		into **wire.Probe
	}{{"startupProbe", c.StartupProbe, &out.StartupProbe}, {"livenessProbe", c.LivenessProbe, &out.LivenessProbe}, {"readinessProbe", c.ReadinessProbe, &out.ReadinessProbe}} {
		made, err := probe(c, p.from)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
		*p.into = made
	}
	if c.Lifecycle != nil {
		for _, h := range []struct {
			name string
			from *corev1.LifecycleHandler
			into **wire.Action
		}{{"postStart", c.Lifecycle.PostStart, &out.PostStart}, {"preStop", c.Lifecycle.PreStop, &out.PreStop}} {
			made, err := hook(c, h.from)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", h.name, err))
			}
			*h.into = made
		}
	}
	return errors.Join(failed...)
}

func expanded(words []string, expand func(string) string) []string {
	var out []string
	for _, w := range words {
		out = append(out, expand(w))
	}
	return out
}

func isTrue(b *bool) bool { return b != nil && *b }

// effective is a container's security context with what only the pod says.
func effective(pod *corev1.PodSecurityContext, container *corev1.SecurityContext) corev1.SecurityContext {
	var out corev1.SecurityContext
	if container != nil {
		out = *container
	}
	if pod == nil {
		return out
	}
	if out.RunAsUser == nil {
		out.RunAsUser = pod.RunAsUser
	}
	if out.RunAsGroup == nil {
		out.RunAsGroup = pod.RunAsGroup
	}
	if out.RunAsNonRoot == nil {
		out.RunAsNonRoot = pod.RunAsNonRoot
	}
	return out
}

// groups are the supplementary groups: the pod's, and the image's unless the pod wants its own alone.
func groups(pod *corev1.PodSecurityContext, ofImage []uint32) []int64 {
	var out []int64
	strict := pod != nil && pod.SupplementalGroupsPolicy != nil && *pod.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict
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

// capabilities are a container's, sorted: the default ones, less those dropped, and those added. ALL is told as it is.
func capabilities(c *corev1.Capabilities) []string {
	have := map[string]bool{}
	if c == nil || !has(c.Drop, all) {
		for _, name := range runtimeCapabilities {
			have[name] = true
		}
	}
	if c != nil {
		for _, name := range c.Drop {
			delete(have, plain(name))
		}
		for _, name := range c.Add {
			have[plain(name)] = true
		}
	}
	out := make([]string, 0, len(have))
	for name := range have {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// plain is a capability's name without the kernel's prefix.
func plain(c corev1.Capability) string { return strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_") }

func has(list []corev1.Capability, name string) bool {
	return slices.ContainsFunc(list, func(c corev1.Capability) bool { return plain(c) == name })
}
