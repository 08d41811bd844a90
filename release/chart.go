package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/controller/rbac"
)

// writeCharts packages the charts of the folder charts, with what the program says of itself: the permissions that it
// needs, and the definitions of its kinds.
func writeCharts(_ context.Context, o options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, load := range []func(options) (*chart.Chart, error){controllerChart, crdChart} {
		c, err := load(o)
		if err != nil {
			return err
		}
		path, err := chartutil.Save(c, o.out)
		if err != nil {
			return fmt.Errorf("package chart %s: %w", c.Name(), err)
		}
		fmt.Fprintln(o.say, path)
	}
	return nil
}

// load reads a chart of the folder charts and gives it its version.
func load(o options, name string) (*chart.Chart, error) {
	c, err := loader.LoadDir(filepath.Join(o.root, "charts", name))
	if err != nil {
		return nil, fmt.Errorf("read chart %s: %w", name, err)
	}
	c.Metadata.Version, c.Metadata.AppVersion = o.version, o.version
	return c, nil
}

// controllerChart has the definitions in its folder crds: Helm creates them when it installs, and never changes or
// deletes them (helm.sh/docs/chart_best_practices/custom_resource_definitions).
func controllerChart(o options) (*chart.Chart, error) {
	c, err := load(o, "nodeless")
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(permissions())
	if err != nil {
		return nil, err
	}
	c.Files = append(c.Files, &common.File{Name: "files/rules.yaml", Data: text})
	definitions, err := definitions("crds", nil)
	c.Files = append(c.Files, definitions...)
	return c, err
}

// crdChart has the definitions as templates: an upgrade changes them, and uninstalling keeps them, since all objects of
// a kind go with its definition.
func crdChart(o options) (*chart.Chart, error) {
	c, err := load(o, "nodeless-crd")
	if err != nil {
		return nil, err
	}
	c.Templates, err = definitions("templates", map[string]string{"helm.sh/resource-policy": "keep"})
	return c, err
}

func definitions(folder string, annotations map[string]string) ([]*common.File, error) {
	var out []*common.File
	for _, d := range crds.All() {
		d = d.DeepCopy()
		for k, v := range annotations {
			if d.Annotations == nil {
				d.Annotations = map[string]string{}
			}
			d.Annotations[k] = v
		}
		text, err := yaml.Marshal(d)
		if err != nil {
			return nil, err
		}
		out = append(out, &common.File{Name: folder + "/" + d.Name + ".yaml", Data: text})
	}
	return out, nil
}

// leaseName stands in files/rules.yaml for the name of the lease, which is one of the chart's values.
const leaseName = "LEASE"

// permissions are the rules in files/rules.yaml: those of all releases, and those of what can be switched on.
func permissions() map[string][]rbacv1.PolicyRule {
	const own = "own"
	out := map[string][]rbacv1.PolicyRule{
		"cluster": rbac.Rules(), "surge": rbac.SurgeRules(), "nodeGroups": rbac.NodeGroupRules(), "hosts": rbac.HostRules(),
		"page": rbac.PageRules(), "view": rbac.ViewRules(),
	}
	for _, object := range rbac.Objects(own, leaseName) {
		role, ok := object.(*rbacv1.Role)
		if !ok {
			continue
		}
		if role.Namespace != own {
			out["nodeLeases"] = role.Rules
			continue
		}
		out["own"] = role.Rules
		for _, r := range role.Rules {
			if r.APIGroups[0] == "coordination.k8s.io" {
				out["lease"] = append(out["lease"], r)
			}
		}
	}
	return out
}
