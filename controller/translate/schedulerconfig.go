package translate

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

// SchedulerConfig is the part of the kube-scheduler configuration that planning needs: the names under which
// kube-scheduler binds pods, and the topology spread constraints that it adds to pods without any. The zero value is
// an unconfigured kube-scheduler.
type SchedulerConfig struct {
	profiles map[string][]corev1.TopologySpreadConstraint // by schedulerName; nil = default-scheduler, without any
}

// Schedules reports whether kube-scheduler binds pods with this spec.schedulerName.
func (c SchedulerConfig) Schedules(name string) bool {
	if c.profiles == nil {
		return name == "" || name == corev1.DefaultSchedulerName
	}
	_, ok := c.profiles[profileName(name)]
	return ok
}

// Names returns the names under which kube-scheduler binds pods, sorted.
func (c SchedulerConfig) Names() []string {
	if c.profiles == nil {
		return []string{corev1.DefaultSchedulerName}
	}
	return slices.Sorted(maps.Keys(c.profiles))
}

// Default reports whether this is an unconfigured kube-scheduler.
func (c SchedulerConfig) Default() bool { return c.profiles == nil }

// Spreads reports whether any pods get default constraints.
func (c SchedulerConfig) Spreads() bool {
	for _, constraints := range c.profiles {
		if len(constraints) > 0 {
			return true
		}
	}
	return false
}

// DefaultSpread returns the constraints that kube-scheduler adds to the pod, without their label selectors. A pod
// with its own constraints gets none.
func (c SchedulerConfig) DefaultSpread(pod *corev1.Pod) []corev1.TopologySpreadConstraint {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return nil
	}
	return c.profiles[profileName(pod.Spec.SchedulerName)]
}

func profileName(scheduler string) string {
	if scheduler == "" {
		return corev1.DefaultSchedulerName
	}
	return scheduler
}

// WithSpread returns the pod with these constraints, which count the pods that the selector selects. The pod itself is
// not changed.
func WithSpread(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint, selector *metav1.LabelSelector,
) *corev1.Pod {
	spread := slices.Clone(constraints)
	for i := range spread {
		spread[i].LabelSelector = selector
	}
	out := *pod
	out.Spec.TopologySpreadConstraints = spread
	return &out
}

const (
	kubeSchedulerConfiguration = "KubeSchedulerConfiguration"
	spreadPlugin               = "PodTopologySpread"
)

// ParseSchedulerConfig parses a scheduler configuration in YAML or JSON: kube-scheduler's own
// KubeSchedulerConfiguration (kubernetes.io/docs/reference/scheduling/config), or what Karpenter reads from
// SCHEDULER_CONFIG, podTopologySpread.defaultConstraints. An empty document is the zero value. Errors name the field.
func ParseSchedulerConfig(document []byte) (SchedulerConfig, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return SchedulerConfig{}, nil
	}
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(document, &head); err != nil {
		return SchedulerConfig{}, err
	}
	switch {
	case head.Kind == kubeSchedulerConfiguration && head.APIVersion == schedulerv1.SchemeGroupVersion.String():
		return parseProfiles(document)
	case head.Kind != "" || head.APIVersion != "":
		return SchedulerConfig{}, fmt.Errorf("apiVersion %q, kind %q: use %s, kind %s", head.APIVersion, head.Kind,
			schedulerv1.SchemeGroupVersion, kubeSchedulerConfiguration)
	}
	var own struct {
		PodTopologySpread struct {
			DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
		} `json:"podTopologySpread"`
	}
	if err := yaml.UnmarshalStrict(document, &own); err != nil {
		return SchedulerConfig{}, err
	}
	constraints := own.PodTopologySpread.DefaultConstraints
	if errs := invalidDefaults(constraints, field.NewPath("podTopologySpread", "defaultConstraints")); len(errs) > 0 {
		return SchedulerConfig{}, errs.ToAggregate()
	}
	return SchedulerConfig{map[string][]corev1.TopologySpreadConstraint{corev1.DefaultSchedulerName: constraints}}, nil
}

func parseProfiles(document []byte) (SchedulerConfig, error) {
	var config schedulerv1.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(document, &config); err != nil {
		return SchedulerConfig{}, err
	}
	errs := ignoredByScheduler(config.Extenders)
	if len(config.Profiles)+len(errs) == 0 {
		return SchedulerConfig{}, nil
	}
	out := SchedulerConfig{map[string][]corev1.TopologySpreadConstraint{}}
	for i := range config.Profiles {
		p, path := &config.Profiles[i], field.NewPath("profiles").Index(i)
		name := corev1.DefaultSchedulerName
		if p.SchedulerName != nil {
			name = *p.SchedulerName
		}
		if _, twice := out.profiles[name]; twice || name == "" {
			errs = append(errs, field.Invalid(path.Child("schedulerName"), name, "must be a name that no other profile has"))
			continue
		}
		constraints, problems := defaultsOf(p, path)
		out.profiles[name], errs = constraints, append(errs, problems...)
	}
	if len(errs) > 0 {
		return SchedulerConfig{}, errs.ToAggregate()
	}
	return out, nil
}

// defaultsOf returns the default constraints of a profile. A profile that names none has those of the defaulting type
// System, which are weak preferences: no node is launched for them.
func defaultsOf(p *schedulerv1.KubeSchedulerProfile, path *field.Path,
) (out []corev1.TopologySpreadConstraint, errs field.ErrorList) {
	for i := range p.PluginConfig {
		at := path.Child("pluginConfig").Index(i).Child("args")
		if len(p.PluginConfig[i].Args.Raw) == 0 {
			continue
		}
		if p.PluginConfig[i].Name != spreadPlugin {
			errs = append(errs, unplanned(&p.PluginConfig[i], at)...)
			continue
		}
		var args schedulerv1.PodTopologySpreadArgs
		if err := yaml.UnmarshalStrict(p.PluginConfig[i].Args.Raw, &args); err != nil {
			errs = append(errs, field.Invalid(at, spreadPlugin, err.Error()))
			continue
		}
		if args.DefaultingType != schedulerv1.ListDefaulting && len(args.DefaultConstraints) > 0 {
			errs = append(errs, field.Invalid(at.Child("defaultingType"), args.DefaultingType,
				"must be List where defaultConstraints are given"))
		}
		errs = append(errs, invalidDefaults(args.DefaultConstraints, at.Child("defaultConstraints"))...)
		out = args.DefaultConstraints
	}
	if disabled(p) {
		return nil, errs
	}
	return out, errs
}

// unplanned returns the errors for arguments of other plugins that change where pods may run, and that plans do not
// follow.
func unplanned(plugin *schedulerv1.PluginConfig, at *field.Path) (errs field.ErrorList) {
	var affinity schedulerv1.NodeAffinityArgs
	var resources schedulerv1.NodeResourcesFitArgs
	var err error
	switch plugin.Name {
	case "NodeAffinity":
		err = yaml.UnmarshalStrict(plugin.Args.Raw, &affinity)
	case "NodeResourcesFit":
		err = yaml.UnmarshalStrict(plugin.Args.Raw, &resources)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, plugin.Name, err.Error())}
	}
	if affinity.AddedAffinity != nil {
		errs = append(errs, field.Forbidden(at.Child("addedAffinity"),
			"plans would not follow it: set the affinity in the pods instead"))
	}
	if len(resources.IgnoredResources) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ignoredResources"), plansCount))
	}
	if len(resources.IgnoredResourceGroups) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ignoredResourceGroups"), plansCount))
	}
	return errs
}

const plansCount = "plans count all resources that pods request: remove it, and let nodes offer these resources"

// ignoredByScheduler returns the errors for resources of extenders that kube-scheduler does not count.
func ignoredByScheduler(extenders []schedulerv1.Extender) (errs field.ErrorList) {
	for i := range extenders {
		at := field.NewPath("extenders").Index(i).Child("managedResources")
		for k, r := range extenders[i].ManagedResources {
			if r.IgnoredByScheduler {
				errs = append(errs, field.Forbidden(at.Index(k).Child("ignoredByScheduler"), plansCount))
			}
		}
	}
	return errs
}

// disabled reports whether a profile does not filter pods by their spread.
func disabled(p *schedulerv1.KubeSchedulerProfile) bool {
	if p.Plugins == nil {
		return false
	}
	named := func(plugin schedulerv1.Plugin) bool { return plugin.Name == spreadPlugin || plugin.Name == "*" }
	return slices.ContainsFunc(slices.Concat(p.Plugins.MultiPoint.Disabled, p.Plugins.Filter.Disabled), named) &&
		!slices.ContainsFunc(slices.Concat(p.Plugins.MultiPoint.Enabled, p.Plugins.Filter.Enabled), named)
}

// invalidDefaults returns the errors for default constraints that kube-scheduler refuses (k8s.io/kubernetes
// pkg/scheduler/apis/config/validation, ValidatePodTopologySpreadArgs).
func invalidDefaults(constraints []corev1.TopologySpreadConstraint, path *field.Path) (errs field.ErrorList) {
	type identity struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	seen := map[identity]bool{}
	for i := range constraints {
		c, at := &constraints[i], path.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "must be greater than zero"))
		}
		if problems := validation.IsQualifiedName(c.TopologyKey); len(problems) > 0 {
			errs = append(errs, field.Invalid(at.Child("topologyKey"), c.TopologyKey, strings.Join(problems, "; ")))
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			errs = append(errs, field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable,
				[]corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}))
		}
		if c.LabelSelector != nil {
			errs = append(errs, field.Forbidden(at.Child("labelSelector"),
				"kube-scheduler finds each pod's selector by its Services and its controller"))
		}
		id := identity{c.TopologyKey, c.WhenUnsatisfiable}
		if seen[id] {
			errs = append(errs, field.Duplicate(at, c.TopologyKey+" "+string(c.WhenUnsatisfiable)))
		}
		seen[id] = true
	}
	return errs
}

// DefaultSelector returns the selector of a pod's default constraints: the labels that its Services select, and the
// selector of its ReplicationController, ReplicaSet or StatefulSet (k8s.io/kubernetes
// pkg/scheduler/framework/plugins/helper, DefaultSelector). nil means that the pod has none, and gets no constraints.
func DefaultSelector(pod *corev1.Pod, services iter.Seq[*corev1.Service], controller *metav1.LabelSelector,
) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for s := range services {
		if s.Namespace != pod.Namespace || !selects(s.Spec.Selector, pod.Labels) {
			continue
		}
		maps.Copy(out.MatchLabels, s.Spec.Selector)
	}
	if controller != nil {
		maps.Copy(out.MatchLabels, controller.MatchLabels)
		out.MatchExpressions = controller.MatchExpressions
	}
	if len(out.MatchLabels)+len(out.MatchExpressions) == 0 {
		return nil
	}
	return out
}

// selects reports whether a Service's selector selects labels; one without a selector selects nothing.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return len(selector) > 0
}
