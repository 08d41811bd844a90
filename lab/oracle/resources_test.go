package oracle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// quantities caches parsed quantities: parsing would take most of the time.
var quantities = map[string]resource.Quantity{}

func init() {
	for _, text := range []string{
		"0", "1", "2", "3", "4", "6", "8", "64", "110", "1m", "100m", "250m", "500m", "999m", "1001m", "1500m", "2500m",
		"100500u", "1000001u",
		"1Gi", "2Gi", "3Gi", "4Gi", "6Gi", "512Mi", "1536Mi", "1G", "256Gi", "2Mi", "4Mi", "1073741825", "2147483647",
		"1500m", "500Gi",
	} {
		quantities[text] = resource.MustParse(text)
	}
}

func q(text string) resource.Quantity {
	if have, ok := quantities[text]; ok {
		return have.DeepCopy()
	}
	return resource.MustParse(text)
}

func (g *gen) allocatable() corev1.ResourceList {
	if !g.on[resources] {
		return corev1.ResourceList{"cpu": q("64"), "memory": q("256Gi"), "ephemeral-storage": q("500Gi"), "pods": q("110")}
	}
	out := corev1.ResourceList{
		"cpu":               q(pick(g, "2", "3", "4", "6", "1500m", "2500m")),
		"memory":            q(pick(g, "2Gi", "3Gi", "4Gi", "6Gi", "2147483647")),
		"ephemeral-storage": q(pick(g, "4Gi", "500Gi")), "pods": q(pick(g, "0", "2", "3", "4", "8", "110")),
	}
	if g.chance(0.4) {
		out[gpu] = q(pick(g, "0", "1", "2", "4"))
	}
	if g.chance(0.4) {
		out[chip] = q(pick(g, "1", "2", "8"))
	}
	if g.chance(0.2) {
		out["hugepages-2Mi"] = q(pick(g, "2Mi", "4Mi"))
	}
	return out
}

func (g *gen) requests() corev1.ResourceList {
	out := corev1.ResourceList{}
	if !g.on[resources] {
		if g.chance(0.5) {
			out["cpu"] = q("100m")
		}
		return out
	}
	if g.chance(0.6) {
		out["cpu"] = q(pick(g, "0", "1m", "100m", "250m", "500m", "999m", "1", "1001m", "1500m", "100500u", "1000001u"))
	}
	if g.chance(0.5) {
		out["memory"] = q(pick(g, "0", "512Mi", "1Gi", "1536Mi", "1G", "1073741825", "1500m"))
	}
	if g.chance(0.15) {
		out["ephemeral-storage"] = q(pick(g, "512Mi", "1Gi", "4Gi"))
	}
	if g.chance(0.12) {
		out[gpu] = q(pick(g, "0", "1", "2"))
	}
	if g.chance(0.12) {
		out[chip] = q(pick(g, "1", "3"))
	}
	if g.chance(0.05) {
		out["hugepages-2Mi"] = q(pick(g, "2Mi", "4Mi"))
	}
	return out
}

func (g *gen) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: g.requests()}}
	if g.on[ports] && g.chance(0.75) {
		c.Ports = []corev1.ContainerPort{{
			ContainerPort: 80, HostPort: pick[int32](g, 0, 80, 80, 80, 80, 443),
			HostIP:   pick(g, "", "", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"),
			Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, ""),
		}}
	}
	return c
}

// containers gives the pod its containers, and its other resource requests.
func (g *gen) containers(p *corev1.Pod, bound bool) {
	p.Spec.Containers = []corev1.Container{g.container("main")}
	if g.chance(0.2) {
		p.Spec.Containers = append(p.Spec.Containers, g.container("other"))
	}
	if !g.on[resources] && !g.on[ports] {
		return
	}
	for _, name := range []string{"first", "second", "third"} {
		if !g.chance(0.2) {
			continue
		}
		c := g.container(name)
		if g.chance(0.5) {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if !g.on[resources] {
		return
	}
	if g.chance(0.2) {
		p.Spec.Overhead = corev1.ResourceList{"cpu": q(pick(g, "100m", "500m")), "memory": q("512Mi")}
	}
	if g.chance(0.15) {
		g.podLevel(p)
	}
	if bound && g.chance(0.15) {
		g.resize(p)
	}
}

// podLevel gives the pod resources of its own, no less than its containers'.
func (g *gen) podLevel(p *corev1.Pod) {
	sum := resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{})
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{}}
	for _, name := range []corev1.ResourceName{"cpu", "memory"} {
		if g.chance(0.3) {
			continue
		}
		amount := sum[name]
		amount.Add(q(pick(g, "0", "1", "500m")))
		p.Spec.Resources.Requests[name] = amount
	}
}

// resize makes the pod one whose container is being resized in place: its allocated resources differ from its
// requests.
func (g *gen) resize(p *corev1.Pod) {
	had := corev1.ResourceList{"cpu": q(pick(g, "100m", "1", "1500m")), "memory": q(pick(g, "512Mi", "1Gi"))}
	c := &p.Spec.Containers[0]
	c.Resources.Requests["cpu"], c.Resources.Requests["memory"] = q(pick(g, "250m", "1", "500m")),
		q(pick(g, "512Mi", "1536Mi"))
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: c.Name, AllocatedResources: had, Resources: &corev1.ResourceRequirements{Requests: had},
	}}
	if g.chance(0.2) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
		}}
	}
}
