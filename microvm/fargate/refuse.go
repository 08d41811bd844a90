package fargate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// Reasons of the condition PodScheduled=False, as on Fargate.
const (
	ReasonUnsupported = "POD_UNSUPPORTED_ON_FARGATE"
	ReasonTooLarge    = "POD_CPU_MEM_EXCEEDS_MAX_FARGATE_SIZE"
)

// tooLarge is Fargate's message for a pod above its largest size.
const tooLarge = "Your pod's cpu/memory requirements exceed the max Fargate configuration"

// Refusal is why a pod gets no microVM until the pod or something it depends on changes. The zero value means that it
// is not refused.
type Refusal struct {
	Reason  string // of the condition PodScheduled
	Message string // of the condition and the event FailedScheduling
}

// Refuse returns why a profile's pod cannot run: what Fargate refuses, if the profile keeps Fargate's restrictions, and
// what microVMs cannot do. The parts of the message are in Fargate's order.
func Refuse(spec *v1alpha1.FargateProfileSpec, pod *corev1.Pod, storage Storage, able Abilities) Refusal {
	restricted := spec.Restricted() == v1alpha1.RestrictionsFargate
	var parts []string
	add := func(prefix, separator string, entries []string) {
		if len(entries) > 0 {
			parts = append(parts, prefix+strings.Join(entries, separator))
		}
	}
	add("fields not supported: ", ", ", unsupportedFields(pod, restricted))
	if restricted {
		add("invalid SecurityContext fields: ", ",", forbiddenSecurity(pod))
		if usesHostPorts(pod) {
			parts = append(parts, "port contains HostIP or HostPort")
		}
	} else if usesOtherHostPorts(pod) {
		parts = append(parts, "port contains HostPort other than ContainerPort") // the pod's address is its node's
	}
	add("volumes not supported: ", ", ", unsupportedVolumes(pod, storage, able, restricted))
	add("resources not supported: ", ", ", unsupportedResources(pod)) // Fargate's wording is unknown
	if len(parts) > 0 {
		where := "a microVM"
		if restricted {
			where = "Fargate"
		}
		return Refusal{ReasonUnsupported, fmt.Sprintf("Pod not supported on %s: %s", where, strings.Join(parts, ", "))}
	}
	if asked := Requests(pod).StorageBytes; asked > maxStorage {
		return Refusal{ReasonUnsupported, fmt.Sprintf("Pod not supported on Fargate: ephemeral storage requests of %d "+
			"bytes exceed the 175Gi that a pod may have", asked)}
	}
	if _, ok := Provision(spec, pod, able.GuestOverhead); !ok {
		return Refusal{ReasonTooLarge, tooLarge}
	}
	return Refusal{}
}

// Rejection returns the reason and message with which a kubelet rejects the pod, on a node without AppArmor like those
// of Fargate (pkg/kubelet/sysctl and lifecycle, Kubernetes 1.36); "" if it does not.
func Rejection(pod *corev1.Pod) (reason, message string) {
	if name := forbiddenSysctl(pod); name != "" {
		return "SysctlForbidden", fmt.Sprintf("forbidden sysctl: %q not allowlisted", name)
	}
	if wantsAppArmor(pod) {
		return "AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	}
	return "", ""
}

// wantsAppArmor reports whether the pod or a container has a profile of AppArmor. The API server copies those of the
// older annotations into the fields.
func wantsAppArmor(pod *corev1.Pod) bool {
	confined := func(p *corev1.AppArmorProfile) bool {
		return p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined
	}
	if s := pod.Spec.SecurityContext; s != nil && confined(s.AppArmorProfile) {
		return true
	}
	for c := range containers(pod) {
		if c.SecurityContext != nil && confined(c.SecurityContext.AppArmorProfile) {
			return true
		}
	}
	return false
}

// safeSysctls are those that a kubelet allows by default (Kubernetes documentation, "Using sysctls in a Kubernetes
// Cluster").
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
}

// forbiddenSysctl returns the first sysctl for which a kubelet would reject the pod; "" if there is none.
func forbiddenSysctl(pod *corev1.Pod) string {
	if pod.Spec.SecurityContext == nil {
		return ""
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		if !slices.Contains(safeSysctls, strings.ReplaceAll(s.Name, "/", ".")) {
			return s.Name
		}
	}
	return ""
}

// unsupportedFields returns the fields of the pod that are not supported.
func unsupportedFields(pod *corev1.Pod, restricted bool) []string {
	return names(
		field{"HostNetwork", restricted && pod.Spec.HostNetwork},
		field{"HostPID", restricted && pod.Spec.HostPID},
		field{"HostIPC", restricted && pod.Spec.HostIPC},
		field{"ResourceClaims", len(pod.Spec.ResourceClaims) > 0},
		field{"MountPropagation", propagatesMounts(pod)},
		field{"HostUsers", pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers}, // the guest has no user namespaces
		field{"OS " + string(osOf(pod)), osOf(pod) != corev1.Linux})
}

// field is a field of a pod, and whether it is set.
type field struct {
	name string
	set  bool
}

// names returns the names of the fields that are set.
func names(fields ...field) (out []string) {
	for _, f := range fields {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

func osOf(pod *corev1.Pod) corev1.OSName {
	if pod.Spec.OS == nil {
		return corev1.Linux
	}
	return pod.Spec.OS.Name
}

// RuntimeCapabilities are the default capabilities of a container (containerd, Docker). Adding one of them, as
// CoreDNS does with NET_BIND_SERVICE, changes nothing and is no reason to refuse a pod.
var RuntimeCapabilities = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
	"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// forbiddenSecurity returns one entry for each privileged container, then one for each container that adds
// capabilities that Fargate does not allow. Equal entries are repeated.
func forbiddenSecurity(pod *corev1.Pod) []string {
	var privileged, added []string
	for c := range containers(pod) {
		s := c.SecurityContext
		if s == nil {
			continue
		}
		if s.Privileged != nil && *s.Privileged {
			privileged = append(privileged, "Privileged")
		}
		if s.Capabilities == nil {
			continue
		}
		var more []string
		for _, c := range s.Capabilities.Add {
			if !slices.Contains(RuntimeCapabilities, c) {
				more = append(more, string(c))
			}
		}
		if len(more) > 0 {
			added = append(added, "Capabilities added: "+strings.Join(more, " "))
		}
	}
	return append(privileged, added...)
}

func usesHostPorts(pod *corev1.Pod) bool {
	for c := range containers(pod) {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 || p.HostIP != "" }) {
			return true
		}
	}
	return false
}

// usesOtherHostPorts reports whether a port of a container should be another one of the node.
func usesOtherHostPorts(pod *corev1.Pod) bool {
	for c := range containers(pod) {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
			return p.HostPort != 0 && p.HostPort != p.ContainerPort
		}) {
			return true
		}
	}
	return false
}

// propagatesMounts reports whether a container shares with the node what is mounted in a volume.
func propagatesMounts(pod *corev1.Pod) bool {
	for c := range containers(pod) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone
		}) {
			return true
		}
	}
	return false
}

// unsupportedResources returns the requested resources other than CPU, memory and ephemeral storage, sorted.
func unsupportedResources(pod *corev1.Pod) []string {
	var out []string
	add := func(r corev1.ResourceRequirements) {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name, amount := range list {
				if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage &&
					!amount.IsZero() {
					out = append(out, string(name))
				}
			}
		}
	}
	add(ptr.Deref(pod.Spec.Resources, corev1.ResourceRequirements{}))
	for c := range containers(pod) {
		add(c.Resources)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// containers iterates over a pod's containers, init containers first.
func containers(pod *corev1.Pod) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}
