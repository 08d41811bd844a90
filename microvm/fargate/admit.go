package fargate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// Admission is the decision about a new pod, with warnings for its author.
type Admission struct {
	Choice
	Size    Size    // zero if the pod is too large
	Refusal Refusal // volume claims are looked up later
	// Warnings are for the author of the pod or its workload: whole sentences without a full stop.
	Warnings []string
}

// Admit decides about a pod that is about to be created. It does not change the pod; Apply does.
func Admit(profiles []*v1alpha1.FargateProfile, pod *corev1.Pod, able Abilities) Admission {
	a := Admission{Choice: Choose(profiles, pod)}
	if a.Note != "" {
		a.Warnings = append(a.Warnings, a.Note)
	}
	if a.Profile == nil {
		return a
	}
	spec := &a.Profile.Spec
	a.Size, _ = Provision(spec, pod, able.GuestOverhead)
	a.Refusal = Refuse(spec, pod, unbound{}, able)
	say := func(format string, args ...any) {
		a.Warnings = append(a.Warnings, "FargateProfile "+a.Profile.Name+": "+fmt.Sprintf(format, args...))
	}
	if a.Refusal != (Refusal{}) {
		say("the pod will not run: %s", a.Refusal.Message)
		return a
	}
	say("the pod runs as %s in its own microVM; it requests %s", a.Size, asked(pod))
	if len(a.Others) > 0 {
		say("several profiles select the pod, and the first by name is used; the others are %s; label %s selects another",
			strings.Join(a.Others, ", "), ProfileLabel)
	}
	for _, w := range slices.Concat(adjustments(pod), excessiveLimits(pod, a.Size)) {
		say("%s", w)
	}
	return a
}

// unbound is the Storage of a pod that does not exist yet. It shows every claim as bound to an EFS volume; the real
// claims are looked up when the pod is scheduled.
type unbound struct{}

func (unbound) Claim(_, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.VolumeName, c.Status.Phase = name, corev1.ClaimBound
	return c
}

func (unbound) Volume(name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: efsDriver}
	return v
}

func asked(pod *corev1.Pod) string {
	r := Requests(pod)
	if r.MilliCPU == 0 && r.MemoryBytes == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%s CPU and %s memory", resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI),
		resource.NewQuantity(r.MemoryBytes, resource.BinarySI))
}

// adjustments returns which fields of a pod are overwritten, and which are ignored.
func adjustments(pod *corev1.Pod) []string {
	var out []string
	if s := pod.Spec.SchedulerName; s != "" && s != corev1.DefaultSchedulerName && s != SchedulerName {
		out = append(out, fmt.Sprintf("adjusted schedulerName from %s to %s", s, SchedulerName))
	}
	if c := pod.Spec.PriorityClassName; c != "" && c != PriorityClass {
		out = append(out, fmt.Sprintf("adjusted priorityClassName from %s to %s", c, PriorityClass))
	}
	var ignored []string
	for key := range pod.Spec.NodeSelector {
		if !slices.Contains(honoured, key) {
			ignored = append(ignored, "nodeSelector "+key)
		}
	}
	slices.Sort(ignored)
	affinity := ptr.Deref(pod.Spec.Affinity, corev1.Affinity{})
	ignored = append(ignored, names(
		field{"nodeAffinity except for zones", affinity.NodeAffinity != nil},
		field{"podAffinity", affinity.PodAffinity != nil},
		field{"podAntiAffinity", affinity.PodAntiAffinity != nil},
		field{"topologySpreadConstraints", len(pod.Spec.TopologySpreadConstraints) > 0})...)
	if len(ignored) > 0 {
		out = append(out, fmt.Sprintf("ignored, since the pod is alone on its node: %s", strings.Join(ignored, ", ")))
	}
	if c := ptr.Deref(pod.Spec.RuntimeClassName, ""); c != "" {
		out = append(out, fmt.Sprintf("ignored runtimeClassName %s, since the pod has a virtual machine of its own", c))
	}
	if limits := diskLimits(pod); len(limits) > 0 {
		out = append(out, fmt.Sprintf("not enforced, since the pod has a disk of its own: %s", strings.Join(limits, ", ")))
	}
	return out
}

// diskLimits returns the limits of a pod on its use of the disk.
func diskLimits(pod *corev1.Pod) (out []string) {
	for _, v := range pod.Spec.Volumes {
		if e := v.EmptyDir; e != nil && e.Medium == corev1.StorageMediumDefault && e.SizeLimit != nil {
			out = append(out, "sizeLimit of emptyDir "+v.Name)
		}
	}
	for c := range containers(pod) {
		if !c.Resources.Limits.StorageEphemeral().IsZero() {
			out = append(out, "limits.ephemeral-storage of container "+c.Name)
		}
	}
	return out
}

// honoured are the nodeSelector keys that restrict the hosts of a microVM.
var honoured = []string{
	corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelArchStable,
	corev1.LabelOSStable,
}

// excessiveLimits returns which limits exceed the microVM's size.
func excessiveLimits(pod *corev1.Pod, size Size) []string {
	var out []string
	for c := range containers(pod) {
		if cpu := c.Resources.Limits.Cpu(); cpu.MilliValue() > size.MilliCPU {
			out = append(out, fmt.Sprintf("container %s cannot use its CPU limit of %s: the microVM has %svCPU", c.Name, cpu,
				decimal(size.MilliCPU, 1000)))
		}
		if memory := c.Resources.Limits.Memory(); memory.Value() > size.MemoryBytes {
			out = append(out, fmt.Sprintf("container %s cannot use its memory limit of %s: the microVM has %s; raise its "+
				"request", c.Name, memory, resource.NewQuantity(size.MemoryBytes, resource.BinarySI)))
		}
	}
	return out
}

// Apply assigns a pod to its profile. LoggingState is the value of the annotation Logging, "" for none.
func (a *Admission) Apply(pod *corev1.Pod, loggingState string) {
	if a.Profile == nil {
		return
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, ProfileLabel, a.Profile.Name)
	delete(pod.Annotations, CapacityProvisioned) // output only: a value in a template has no meaning
	if a.Size != (Size{}) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, CapacityProvisioned, a.Size.String())
	}
	if loggingState != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, Logging, loggingState)
	}
	priority, preempt := int32(Priority), corev1.PreemptLowerPriority
	pod.Spec.SchedulerName = SchedulerName
	pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy = PriorityClass, &priority, &preempt
}

// systemNamespace holds a cluster's own pods.
const systemNamespace = "kube-system"

// Advise returns advice for the author of a profile, in whole sentences. None of it is an error: running a
// cluster's system pods in microVMs is permitted.
func Advise(spec *v1alpha1.FargateProfileSpec) []string {
	var out []string
	if spec.Engine == v1alpha1.EngineNamespace {
		out = append(out, "spec.engine: Namespace is no virtual machine: these pods share the host's kernel, and who "+
			"breaks out of one is root on the host; "+
			"leave it out wherever a host can run virtual machines")
	}
	for i, s := range spec.Selectors {
		if len(s.Labels) > 0 {
			continue
		}
		switch {
		case strings.Trim(s.Namespace, "*") == "" && s.Namespace != "":
			out = append(out, fmt.Sprintf("spec.selectors[%d]: namespace %q without labels selects every pod of the cluster, "+
				"its system pods included; "+
				"name namespaces, or give labels", i, s.Namespace))
		case strings.ContainsAny(s.Namespace, "*?") && glob(s.Namespace, systemNamespace):
			out = append(out, fmt.Sprintf("spec.selectors[%d]: namespace %q also matches kube-system: the cluster's system "+
				"pods get microVMs too; "+
				"name the namespaces, or give labels", i, s.Namespace))
		case s.Namespace == systemNamespace:
			out = append(out, fmt.Sprintf("spec.selectors[%d]: every new pod of kube-system but those of DaemonSets gets a "+
				"microVM; "+
				"add labels to select only some of them", i))
		}
	}
	return out
}
