package main

import (
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// plugin is what krew, the manager of kubectl's plugins, reads (krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
type plugin struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec pluginSpec `json:"spec"`
}

type pluginSpec struct {
	Version          string           `json:"version"`
	Homepage         string           `json:"homepage"`
	ShortDescription string           `json:"shortDescription"`
	Description      string           `json:"description"`
	Platforms        []pluginPlatform `json:"platforms"`
}

type pluginPlatform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Bin      string               `json:"bin"`
}

// pluginFile is the file name of the krew manifest.
const pluginFile = program + ".krew.yaml"

// writePlugin writes the krew manifest of the archives.
func writePlugin(o options) error {
	m := plugin{TypeMeta: metav1.TypeMeta{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"}}
	m.Metadata.Name = program
	m.Spec = pluginSpec{
		Version: "v" + o.version, Homepage: source, ShortDescription: "Explain, price and preview a cluster's nodes",
		Description: "Says why pods wait and why nodes stay or go, what a change of manifests would do to nodes and cost, " +
			"and what removing nodes has saved: with Karpenter's NodePools, with node groups, or with Nodeless.\n" +
			"On Linux it also runs a whole cluster on this machine, with a simulated AWS region.\n",
	}
	for _, p := range o.platforms {
		sum, err := fileSum(filepath.Join(o.out, p.archive(o.version)))
		if err != nil {
			return err
		}
		m.Spec.Platforms = append(m.Spec.Platforms, pluginPlatform{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
			URI:      fmt.Sprintf("%s/releases/download/v%s/%s", source, o.version, p.archive(o.version)),
			SHA256:   sum, Bin: program,
		})
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return err
	}
	path := filepath.Join(o.out, pluginFile)
	fmt.Fprintln(o.say, path)
	return os.WriteFile(path, text, 0o644) // #nosec G306 -- to be published
}
