package fargate

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

func TestAPodBecomesOneOfItsProfile(t *testing.T) {
	p := pod("n", "cpu=500m memory=500Mi")
	p.Spec.PriorityClassName = "mine"
	p.Annotations = map[string]string{CapacityProvisioned: "16vCPU 120GB"}
	a := Admit([]*v1alpha1.FargateProfile{profile("demo-profile", "n")}, p, DefaultAbilities())
	a.Apply(p, "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND")
	if p.Labels[ProfileLabel] != "demo-profile" || p.Annotations[CapacityProvisioned] != "0.5vCPU 1GB" ||
		p.Annotations[Logging] != "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND" {
		t.Errorf("labels %v, annotations %v", p.Labels, p.Annotations)
	}
	if p.Spec.SchedulerName != "fargate-scheduler" || p.Spec.PriorityClassName != "system-node-critical" ||
		*p.Spec.Priority != 2000001000 || *p.Spec.PreemptionPolicy != "PreemptLowerPriority" {
		t.Errorf("spec %+v", p.Spec)
	}
	if r := p.Spec.Containers[0].Resources.Requests; r.Cpu().String() != "500m" || r.Memory().String() != "500Mi" {
		t.Errorf("requests are not raised on Fargate, got %v", r)
	}
}

func TestAPodOfNoProfileStaysAsItIs(t *testing.T) {
	p := pod("other", "cpu=1")
	before := p.DeepCopy()
	a := Admit([]*v1alpha1.FargateProfile{profile("p", "n")}, p, DefaultAbilities())
	a.Apply(p, "LoggingEnabled")
	if len(a.Warnings) > 0 || p.Spec.SchedulerName != before.Spec.SchedulerName || len(p.Labels)+len(p.Annotations) > 0 {
		t.Errorf("warnings %v, pod %+v", a.Warnings, p)
	}
}

func TestWarningsSayWhatBecomesOfAPod(t *testing.T) {
	p := pod("n", "cpu=500m memory=500Mi limits.cpu=2 limits.memory=2Gi")
	p.Spec.PriorityClassName, p.Spec.SchedulerName = "high", "volcano"
	p.Spec.NodeSelector = map[string]string{"disktype": "ssd", corev1.LabelTopologyZone: "a"}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}}
	p.Spec.RuntimeClassName = ptr.To("kata")
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	limit := resource.MustParse("1Gi")
	p.Spec.Volumes = []corev1.Volume{
		volume("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}),
		volume("ram", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: &limit,
		}}),
	}
	a := Admit([]*v1alpha1.FargateProfile{profile("b", "n"), profile("a", "n")}, p, DefaultAbilities())
	want := []string{
		"FargateProfile a: the pod runs as 0.5vCPU 1GB in its own microVM; it requests 500m CPU and 500Mi memory",
		"FargateProfile a: several profiles select the pod, and the first by name is used; the others are b; label eks.amazonaws.com/fargate-profile selects another",
		"FargateProfile a: adjusted schedulerName from volcano to fargate-scheduler",
		"FargateProfile a: adjusted priorityClassName from high to system-node-critical",
		"FargateProfile a: ignored, since the pod is alone on its node: nodeSelector disktype, podAntiAffinity, topologySpreadConstraints",
		"FargateProfile a: ignored runtimeClassName kata, since the pod has a virtual machine of its own",
		"FargateProfile a: not enforced, since the pod has a disk of its own: sizeLimit of emptyDir data, limits.ephemeral-storage of container a",
		"FargateProfile a: container a cannot use its CPU limit of 2: the microVM has 0.5vCPU",
		"FargateProfile a: container a cannot use its memory limit of 2Gi: the microVM has 1Gi; raise its request",
	}
	if !slices.Equal(a.Warnings, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(a.Warnings, "\n"), strings.Join(want, "\n"))
	}
	refused := Admit([]*v1alpha1.FargateProfile{profile("a", "n")}, evil(), DefaultAbilities())
	if len(refused.Warnings) != 1 ||
		!strings.HasPrefix(refused.Warnings[0],
			"FargateProfile a: the pod will not run: Pod not supported on Fargate: fields not supported: HostNetwork") {
		t.Errorf("of a pod that will be refused: %q", refused.Warnings)
	}
	later := pod("n", "")
	later.Spec.Volumes = []corev1.Volume{claimed("data", "not-made-yet")}
	able := DefaultAbilities()
	able.Volumes = append(able.Volumes, EFS)
	if a := Admit([]*v1alpha1.FargateProfile{profile("a", "n")}, later, able); a.Refusal != (Refusal{}) {
		t.Errorf("a claim may be bound when the pod is placed, got %v", a.Refusal)
	}
}

func TestLogRouting(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   LoggingNamespace,
		Labels: map[string]string{LoggingLabel: "enabled"},
	}}
	with := func(output string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"output.conf": output}}
	}
	able := DefaultAbilities()
	able.LogRouter = false
	routing := able
	routing.LogRouter = true
	off := v1alpha1.FargateProfileSpec{Logging: &v1alpha1.FargateProfileLogging{Router: v1alpha1.LogRouterDisabled}}
	for name, c := range map[string]struct {
		spec       v1alpha1.FargateProfileSpec
		namespace  *corev1.Namespace
		configMap  *corev1.ConfigMap
		able       Abilities
		annotation string
		message    string
	}{
		"no namespace": {
			able: able, annotation: "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND",
			message: `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`,
		},
		"namespace without its label": {
			namespace: &corev1.Namespace{},
			configMap: with("[OUTPUT]\n Name stdout\n Match *"), able: able,
			annotation: "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND",
			message:    `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`,
		},
		"an output that Fargate does not know": {
			namespace: namespace,
			configMap: with("[OUTPUT]\n Name amazon_data_firehose\n Match *"), able: able,
			annotation: "LoggingDisabled: LOGGING_CONFIGMAP_INVALID",
			message:    "Disabled logging for pod due to invalid configmap. amazon_data_firehose is not a supported output plugin. Please fix the logging configmap",
		},
		"no router here": {
			namespace: namespace, configMap: with("[OUTPUT]\n Name stdout\n Match *"), able: able,
			annotation: "LoggingDisabled: LOG_ROUTER_NOT_AVAILABLE",
			message:    "Disabled logging for pod: the hosts of microVMs here have no log router; kubectl logs works",
		},
		"AWS is not there": {
			namespace: namespace, configMap: with("[OUTPUT]\n Name cloudwatch_logs\n Match *"),
			able: routing, annotation: "LoggingDisabled: OUTPUT_NEEDS_AWS",
			message: "Disabled logging for pod: output plugin cloudwatch_logs needs AWS and is not supported here; use file, stdout, http, loki, es or opensearch",
		},
		"AWS is not there for one of two": {
			namespace: namespace,
			configMap: with("[OUTPUT]\n Name cloudwatch_logs\n Match *\n[OUTPUT]\n Name stdout\n Match *"), able: routing,
			annotation: "LoggingEnabled",
			message:    "Successfully enabled logging for pod, but not for output plugin cloudwatch_logs, which needs AWS and is not supported here",
		},
		"Elasticsearch of one's own": {
			namespace: namespace, configMap: with("[OUTPUT]\n Name es\n Match *"),
			able: routing, annotation: "LoggingEnabled", message: "Successfully enabled logging for pod",
		},
		"Elasticsearch at AWS": {
			namespace: namespace, configMap: with("[OUTPUT]\n Name es\n Match *\n AWS_Auth On"),
			able: routing, annotation: "LoggingDisabled: OUTPUT_NEEDS_AWS",
			message: "Disabled logging for pod: output plugin es needs AWS and is not supported here; use file, stdout, http, loki, es or opensearch",
		},
		"all is well": {
			namespace: namespace, configMap: with("[OUTPUT]\n Name stdout\n Match *"),
			able: routing, annotation: "LoggingEnabled", message: "Successfully enabled logging for pod",
		},
		"the profile wants no logs": {
			spec: off, namespace: namespace,
			configMap: with("[OUTPUT]\n Name stdout\n Match *"), able: routing,
			annotation: "LoggingDisabled: DISABLED_BY_PROFILE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := LogRouting(&c.spec, c.namespace, c.configMap, c.able)
			if got.Annotation != c.annotation || got.Message != c.message {
				t.Errorf("got  %q %q\nwant %q %q", got.Annotation, got.Message, c.annotation, c.message)
			}
		})
	}
}
