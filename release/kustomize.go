package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// releaseNamespace is where the objects of the Kustomize base are.
const releaseNamespace = "kube-system"

// rendered returns the files of a chart as Helm makes them with values, by their names.
func rendered(c *chart.Chart, values map[string]any, apis ...string) (map[string]string, error) {
	caps := common.DefaultCapabilities.Copy()
	caps.APIVersions = append(caps.APIVersions, apis...)
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{
		Name: "nodeless", Namespace: releaseNamespace, IsInstall: true, Revision: 1,
	}, caps)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// writeKustomize writes a base for Kustomize: the chart's objects by its default values, and the definitions. What the
// chart's values are for, an overlay patches; the controller does not start before one gives it CLUSTER_NAME.
func writeKustomize(_ context.Context, o options) error {
	c, err := controllerChart(o)
	if err != nil {
		return err
	}
	objects, err := defaultObjects(c)
	if err != nil {
		return fmt.Errorf("render chart %s: %w", c.Name(), err)
	}
	kinds, err := definitions("crds", nil)
	if err != nil {
		return err
	}
	var crds [][]byte
	for _, f := range kinds {
		crds = append(crds, f.Data)
	}
	folder := filepath.Join(o.out, "kustomize")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"crds.yaml": bytes.Join(crds, []byte("---\n")), "nodeless.yaml": bytes.Join(objects, []byte("---\n")),
		"kustomization.yaml": []byte("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" +
			"resources: [crds.yaml, nodeless.yaml]\n"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintln(o.say, folder)
	return nil
}

// defaultObjects returns a chart's objects without what is Helm's alone: hooks and its labels.
func defaultObjects(c *chart.Chart) (out [][]byte, err error) {
	const name = "to-be-given"
	files, err := rendered(c, map[string]any{"settings": map[string]any{"clusterName": name}})
	if err != nil {
		return nil, err
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(file, ".txt") {
			continue
		}
		for document := range strings.SplitSeq(files[file], "\n---\n") {
			o := unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if len(o.Object) == 0 || o.GetAnnotations()["helm.sh/hook"] != "" {
				continue
			}
			labels := o.GetLabels()
			delete(labels, "helm.sh/chart")
			delete(labels, "app.kubernetes.io/managed-by")
			o.SetLabels(labels)
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				return nil, err
			}
			out = append(out, bytes.ReplaceAll(text, []byte("value: "+name+"\n"), []byte("value: \"\"\n")))
		}
	}
	return out, nil
}
