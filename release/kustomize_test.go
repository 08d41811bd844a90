package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/controller/crds"
)

// overlay returns the overlay shown in the documentation.
func overlay(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testOptions.root, "docs", "how-do-i-run-it-on-my-cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## How do I install it with Kustomize?")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	out, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the document shows no overlay")
	}
	return out
}

// The base with the documented overlay equals Helm's output with the same values, except for Helm's own labels and
// hooks, and has the definitions of all kinds.
func TestTheKustomizeBaseIsTheChart(t *testing.T) {
	o := testOptions
	o.out = filepath.Join(t.TempDir(), "bin", "dist")
	if err := writeKustomize(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(filepath.Dir(o.out))
	if err := os.WriteFile(filepath.Join(root, "kustomization.yaml"), []byte(overlay(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	var d appsv1.Deployment
	var account corev1.ServiceAccount
	for _, r := range built.Resources() {
		kinds[r.GetKind()]++
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		for kind, into := range map[string]any{"Deployment": &d, "ServiceAccount": &account} {
			if r.GetKind() == kind {
				if err := yaml.UnmarshalStrict(text, into); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
		}
		if strings.Contains(string(text), "helm.sh/") {
			t.Errorf("%s %s is still Helm's:\n%s", r.GetKind(), r.GetName(), text)
		}
	}
	objects := render(t, controllerChartForTest(t), `{settings: {clusterName: prod, interruptionQueue: prod},
		controller: {image: {repository: registry.example/nodeless/controller, tag: 1.0.0}}}`)
	want := find[*appsv1.Deployment](t, objects)
	for name, value := range environment(want) {
		if got := environment(&d)[name]; got != value {
			t.Errorf("%s=%q, want %q", name, got, value)
		}
	}
	if got := d.Spec.Template.Spec.Containers[0].Image; got != want.Spec.Template.Spec.Containers[0].Image {
		t.Errorf("image %s", got)
	}
	if account.Annotations["eks.amazonaws.com/role-arn"] == "" {
		t.Errorf("annotations of the account: %v", account.Annotations)
	}
	helms := map[string]int{"CustomResourceDefinition": len(crds.All())}
	for _, x := range objects {
		if o, ok := x.(metav1.Object); ok && o.GetAnnotations()["helm.sh/hook"] == "" {
			helms[x.GetObjectKind().GroupVersionKind().Kind]++
		}
	}
	for kind, n := range helms {
		if kinds[kind] != n {
			t.Errorf("%d objects of kind %s, want %d", kinds[kind], kind, n)
		}
	}
}

// Without an overlay the controller reports that its cluster has no name: it would tag instances for the wrong
// cluster.
func TestTheKustomizeBaseNamesNoCluster(t *testing.T) {
	objects, err := defaultObjects(controllerChartForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, text := range objects {
		if !strings.Contains(string(text), "\nkind: Deployment\n") {
			continue
		}
		var d appsv1.Deployment
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		name, has := environment(&d)["CLUSTER_NAME"]
		found = has && name == ""
	}
	if !found {
		t.Error("the Deployment of the base does not leave CLUSTER_NAME to an overlay")
	}
}
