package fargate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// Admission is what becomes of a new pod, and what its author should know of it.
type Admission struct {
	Choice
	Size    Size    // zero if the pod is too large
	Refusal Refusal // as far as it can be known before volumes are looked up
	// Warnings are for whoever made the pod or the workload that makes it; whole sentences without full stop.
	Warnings []string
}

// Admit says what becomes of a pod that is about to be created. It does not change the pod; Apply does.
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
	say("runs as %s in a microVM of its own; it asks for %s", a.Size, asked(pod))
	if len(a.Others) > 0 {
		say("the first by name of several that select the pod; the others are %s; label %s chooses", strings.Join(a.Others, ", "), ProfileLabel)
	}
	for _, w := range adjusted(pod) {
		say("%s", w)
	}
	for _, w := range beyond(pod, a.Size) {
		say("%s", w)
	}
	return a
}

// unbound is the storage of a pod that does not exist yet: its claims are looked up when it is placed.
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
	return fmt.Sprintf("%s CPU and %s memory", resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI), resource.NewQuantity(r.MemoryBytes, resource.BinarySI))
}

// adjusted says what of a pod is overwritten, and what is not looked at.
func adjusted(pod *corev1.Pod) []string {
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
	if a := pod.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil {
			ignored = append(ignored, "nodeAffinity but for zones")
		}
		if a.PodAffinity != nil {
			ignored = append(ignored, "podAffinity")
		}
		if a.PodAntiAffinity != nil {
			ignored = append(ignored, "podAntiAffinity")
		}
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		ignored = append(ignored, "topologySpreadConstraints")
	}
	if len(ignored) > 0 {
		out = append(out, fmt.Sprintf("not looked at, since the pod is alone on its node: %s", strings.Join(ignored, ", ")))
	}
	return out
}

// honoured are the keys of a nodeSelector that say on which hosts a microVM may be.
var honoured = []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone, corev1.LabelArchStable, corev1.LabelOSStable}

// beyond names the limits that are above what there is.
func beyond(pod *corev1.Pod, size Size) []string {
	var out []string
	for c := range containers(pod) {
		if cpu := c.Resources.Limits.Cpu(); cpu.MilliValue() > size.MilliCPU {
			out = append(out, fmt.Sprintf("container %s cannot use its CPU limit of %s: the microVM has %svCPU", c.Name, cpu, decimal(size.MilliCPU, 1000)))
		}
		if memory := c.Resources.Limits.Memory(); memory.Value() > size.MemoryBytes {
			out = append(out, fmt.Sprintf("container %s cannot use its memory limit of %s: the microVM has %s; raise its request", c.Name, memory, resource.NewQuantity(size.MemoryBytes, resource.BinarySI)))
		}
	}
	return out
}

// Apply makes a pod one of its profile's. LoggingState is the value of the annotation Logging, "" for none.
func (a *Admission) Apply(pod *corev1.Pod, loggingState string) {
	if a.Profile == nil {
		return
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, ProfileLabel, a.Profile.Name)
	delete(pod.Annotations, CapacityProvisioned) // output only: a value in a template means nothing
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
