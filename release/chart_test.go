package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/microvm/fargate"
)

var testOptions = options{root: "..", version: "1.2.3", say: io.Discard}

// render renders a chart with values and returns the objects, which must have no fields unknown to the API. It omits
// a ServiceMonitor, whose kind is not one of client-go's.
func render(t *testing.T, c *chart.Chart, values string) []runtime.Object {
	t.Helper()
	files, err := tryRender(c, values)
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for name, text := range files {
		for _, document := range strings.Split(text, "\n---\n") {
			if strings.HasSuffix(name, ".txt") || !strings.Contains(document, "kind:") ||
				strings.Contains(document, "kind: ServiceMonitor") {
				continue
			}
			o, _, err := strict.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, document)
				continue
			}
			out = append(out, o)
		}
	}
	return out
}

func tryRender(c *chart.Chart, values string) (map[string]string, error) {
	var v map[string]any
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		return nil, err
	}
	return rendered(c, v, "monitoring.coreos.com/v1")
}

// find returns the only object of its type.
func find[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, o := range objects {
		if x, ok := o.(T); ok {
			found = append(found, x)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

func controllerChartForTest(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := controllerChart(testOptions)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// environment returns the variables of the first container, by name.
func environment(d *appsv1.Deployment) map[string]string {
	out := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		out[e.Name] = e.Value
	}
	return out
}

// karpentersValues returns values.yaml of the chart in the module of Karpenter's AWS provider.
func karpentersValues(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "charts", "karpenter", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheChartTakesKarpentersValuesFile(t *testing.T) {
	values := strings.Replace(karpentersValues(t), `clusterName: ""`, `clusterName: prod`, 1)
	values = strings.Replace(values, `interruptionQueue: ""`, `interruptionQueue: prod-queue`, 1)
	objects := render(t, controllerChartForTest(t), values)
	d := find[*appsv1.Deployment](t, objects)
	pod := d.Spec.Template.Spec
	if got := pod.Containers[0].Image; got != "ghcr.io/nodeless/controller:1.2.3" {
		t.Errorf("Karpenter's image became %s", got)
	}
	got := environment(d)
	for name, want := range map[string]string{
		"CLUSTER_NAME": "prod", "INTERRUPTION_QUEUE": "prod-queue", "BATCH_MAX_DURATION": "10s",
		"BATCH_IDLE_DURATION": "1s", "PREFERENCE_POLICY": "Respect", "RESERVED_ENIS": "0", "METRICS_PORT": "8080",
		"VM_MEMORY_OVERHEAD_PERCENT": "0.075", "LEADER_ELECTION_NAMESPACE": "kube-system",
	} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	if gates := got["FEATURE_GATES"]; !strings.Contains(gates, "ReservedCapacity=true") ||
		!strings.Contains(gates, "SpotToSpotConsolidation=false") {
		t.Errorf("FEATURE_GATES=%s", gates)
	}
	own := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector
	if own == nil || own.MatchLabels["app.kubernetes.io/instance"] != "nodeless" {
		t.Errorf("the anti-affinity is with %v, not with the controller's own pods", own)
	}
	if s := pod.TopologySpreadConstraints[0].LabelSelector; s == nil {
		t.Error("the spread counts no pods")
	}
	if name := find[*corev1.ServiceAccount](t, objects).Name; name != pod.ServiceAccountName {
		t.Errorf("the pod runs as %s, the account is %s", pod.ServiceAccountName, name)
	}
}

// Whatever a release is called, its webhook is not called for its own pods, which could not start without it.
func TestTheWebhookIsNotCalledForTheControllersOwnPods(t *testing.T) {
	c := controllerChartForTest(t)
	for _, names := range []string{"{}", "{nameOverride: karpenter}", "{fullnameOverride: karp}", "{podLabels: {a: b}}"} {
		d := find[*appsv1.Deployment](t, render(t, c, withCluster(t, names)))
		if d.Spec.Template.Labels[fargate.ControllerLabel] == "" {
			t.Errorf("%s: the pods have only the labels %v", names, d.Spec.Template.Labels)
		}
		if _, fixed := d.Spec.Selector.MatchLabels[fargate.ControllerLabel]; fixed {
			t.Errorf("%s: selectors of existing Deployments cannot change", names)
		}
	}
}

// The lease may be in Karpenter's namespace. Certificates are kept in the controller's own, where the chart allows it.
func TestTheControllerMayKeepItsCertificates(t *testing.T) {
	objects := render(t, controllerChartForTest(t), withCluster(t,
		"{leaderElection: {namespace: karpenter}, fargate: {enabled: true}}"))
	may := map[string][]string{}
	for _, o := range objects {
		r, ok := o.(*rbacv1.Role)
		if !ok {
			continue
		}
		for _, rule := range r.Rules {
			if slices.Contains(rule.ResourceNames, fargate.WebhookSecret) {
				may[r.Namespace] = rule.Verbs
			}
		}
	}
	if len(may) != 1 || !slices.Equal(may["kube-system"], []string{"get", "update"}) {
		t.Errorf("the Secret may be used in %v", may)
	}
	d := find[*appsv1.Deployment](t, objects)
	if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool {
		return e.Name == "SYSTEM_NAMESPACE" && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace"
	}) {
		t.Error("the controller does not know its own namespace")
	}
}

// withCluster adds the only setting that has no default.
func withCluster(t *testing.T, values string) string {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	settings, _ := v["settings"].(map[string]any)
	if settings == nil {
		settings = map[string]any{}
		v["settings"] = settings
	}
	if name, _ := settings["clusterName"].(string); name == "" {
		settings["clusterName"] = "prod"
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatTheChartRefuses(t *testing.T) {
	c := controllerChartForTest(t)
	for values, want := range map[string]string{
		"{}":                                 "settings.clusterName is empty",
		"settings: {clusterNam: x}":          "clusterNam",
		"replicas: two":                      "replicas",
		"settings: {waitPrice: -1}":          "waitPrice",
		"logLevel: loud":                     "logLevel",
		"controller: {image: {digest: abc}}": "digest",
		"settings: {batchIdleDuration: 5}":   "batchIdleDuration",
	} {
		if _, err := tryRender(c, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}

// The roles are those that the program prints, so the test of the program with these roles holds for the chart, too.
func TestTheChartGivesThePermissionsOfTheProgram(t *testing.T) {
	objects := render(t, controllerChartForTest(t), "settings: {clusterName: prod}")
	var roles []string
	for _, o := range objects {
		if r, ok := o.(*rbacv1.Role); ok {
			roles = append(roles, r.Namespace)
			for _, rule := range r.Rules {
				if slices.Contains(rule.ResourceNames, leaseName) {
					t.Errorf("role in %s: the lease has no name", r.Namespace)
				}
			}
		}
		if r, ok := o.(*rbacv1.ClusterRole); ok && r.Name == "nodeless" {
			if len(r.Rules) != len(permissions()["cluster"]) {
				t.Errorf("%d rules, the program needs %d", len(r.Rules), len(permissions()["cluster"]))
			}
		}
	}
	slices.Sort(roles)
	if want := []string{"kube-node-lease", "kube-system"}; !slices.Equal(roles, want) {
		t.Errorf("roles in %v, want %v", roles, want)
	}
}

func TestTheChartsAreClean(t *testing.T) {
	o := testOptions
	o.out = t.TempDir()
	if err := writeCharts(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nodeless", "nodeless-crd"} {
		file, err := os.ReadFile(filepath.Join(o.out, name+"-1.2.3.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		if err := chartutil.Expand(o.out, bytes.NewReader(file)); err != nil {
			t.Fatal(err)
		}
		values := map[string]any{"settings": map[string]any{"clusterName": "prod"}}
		if name == "nodeless-crd" {
			values = nil
		}
		for _, m := range lint.RunAll(filepath.Join(o.out, name), values, "kube-system").Messages {
			if m.Severity > 1 { // an icon is only recommended
				t.Errorf("%s: %v", name, m)
			}
		}
	}
	crds, err := crdChart(testOptions)
	if err != nil {
		t.Fatal(err)
	}
	files, err := tryRender(crds, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 9 {
		t.Errorf("%d definitions", len(files))
	}
	for name, text := range files {
		if !strings.Contains(text, "helm.sh/resource-policy: keep") {
			t.Errorf("%s goes when the chart is uninstalled, and all objects of the kind with it", name)
		}
	}
}
