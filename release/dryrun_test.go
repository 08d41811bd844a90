package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// monitors defines the kind ServiceMonitor as far as the chart needs it.
const monitors = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: ServiceMonitor, plural: servicemonitors}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var monitorKind = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}

// validator applies manifests to an API server that stores none of them.
type validator struct {
	objects dynamic.Interface
	kinds   *restmapper.DeferredDiscoveryRESTMapper
	seen    map[string]bool // documents that the server took
}

func newValidator(t *testing.T, c localCluster) *validator {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.QPS = -1
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	v := &validator{
		objects: objects, seen: map[string]bool{},
		kinds: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.kube.Discovery())),
	}
	for _, name := range []string{"karpenter", "grafana"} {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.kube.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"nodeless", "karpenter", "karp", "given"} { // those of the cases' test pods
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := c.kube.CoreV1().ServiceAccounts(releaseNamespace).Create(t.Context(), account, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := v.apply(t.Context(), monitors); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			v.kinds.Reset()
			_, err := v.kinds.RESTMapping(monitorKind.GroupKind(), monitorKind.Version)
			return err == nil, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// validate applies a document, which must have no fields unknown to the server, without effect.
func (v *validator) validate(ctx context.Context, document string) error {
	if v.seen[document] {
		return nil
	}
	err := v.apply(ctx, document, metav1.DryRunAll)
	v.seen[document] = err == nil
	return err
}

func (v *validator) apply(ctx context.Context, document string, dryRun ...string) error {
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil || len(o.Object) == 0 {
		return err
	}
	kind := o.GroupVersionKind()
	m, err := v.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	_, err = v.objects.Resource(m.Resource).Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyYAMLPatchType,
		[]byte(document), metav1.PatchOptions{
			FieldManager: "test", Force: new(true), DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict,
		})
	return err
}

// validateReleases lets the API server validate everything that the charts render, for each case of a value, and the
// Kustomize base, as `kubectl apply --dry-run=server --validate=strict` does.
func validateReleases(t *testing.T, c localCluster) {
	v := newValidator(t, c)
	controllers := controllerChartForTest(t)
	definitions, err := crdChart(testOptions)
	if err != nil {
		t.Fatal(err)
	}
	of := func(name, values string, c *chart.Chart) {
		files, err := tryRender(c, values)
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			if strings.HasSuffix(file, ".txt") {
				continue
			}
			for document := range strings.SplitSeq(text, "\n---\n") {
				if err := v.validate(t.Context(), document); err != nil {
					t.Errorf("%s: %s: %v\n%s", name, file, err, document)
				}
			}
		}
	}
	of("defaults", withCluster(t, "{}"), controllers)
	of("Karpenter's values", withCluster(t, karpentersValues(t)), controllers)
	of("nodeless-crd", "{}", definitions)
	for values := range allCases(t) {
		of(values, values, controllers)
	}
	o := testOptions
	o.out = t.TempDir()
	if err := writeKustomize(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"crds.yaml", "nodeless.yaml"} {
		text, err := os.ReadFile(filepath.Join(o.out, "kustomize", file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("---\n")) {
			if err := v.validate(t.Context(), string(document)); err != nil {
				t.Errorf("kustomize/%s: %v\n%s", file, err, document)
			}
		}
	}
	const unknown = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}, dat: {}}"
	if err := v.validate(t.Context(), unknown); err == nil || !strings.Contains(err.Error(), "dat") {
		t.Errorf("the server does not refuse unknown fields: %v", err)
	}
}
