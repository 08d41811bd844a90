package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	source          = "https://github.com/nodeless/nodeless"
	license         = "Apache-2.0"
	versionVariable = "github.com/nodeless/nodeless/cmd/internal/program.Version"
)

// Media types of what refers to an image: SPDX documents and in-toto statements.
const (
	typeSPDX   = "application/spdx+json"
	typeInToto = "application/vnd.in-toto+json"
)

// attach adds to the layout what the image of one architecture was made of, and how, as artifacts that refer to it.
func attach(l layout.Path, b built, version, commit string) error {
	subject, err := partial.Descriptor(b.image)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(b.binary)
	if err != nil {
		return fmt.Errorf("read what %s was made of: %w", b.binary, err)
	}
	sum, err := fileSum(b.binary)
	if err != nil {
		return err
	}
	documents := []struct {
		media   types.MediaType
		content any
	}{
		{typeSPDX, billOfMaterials(info, b.arch, version, sum)},
		{typeInToto, provenance(info, b.arch, commit, subject.Digest)},
	}
	for _, d := range documents {
		if err := attachOne(l, *subject, d.media, d.content); err != nil {
			return fmt.Errorf("attach %s to the image for linux/%s: %w", d.media, b.arch, err)
		}
	}
	return nil
}

// attachOne writes an artifact of one document that refers to subject (opencontainers/image-spec/manifest.md,
// "Guidelines for Artifact Usage").
func attachOne(l layout.Path, subject v1.Descriptor, media types.MediaType, content any) error {
	text, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		return err
	}
	artifact := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	if artifact, err = mutate.AppendLayers(mutate.ConfigMediaType(artifact, media),
		static.NewLayer(text, media)); err != nil {
		return err
	}
	return l.AppendImage(mutate.Subject(artifact, subject).(v1.Image))
}

func fileSum(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// dict is a JSON object.
type dict = map[string]any

// billOfMaterials is an SPDX 2.3 document (spdx.github.io/spdx-spec/v2.3) of the Go modules in the program.
func billOfMaterials(info *buildinfo.BuildInfo, arch, version, sum string) dict {
	packages := []dict{{
		"SPDXID": "SPDXRef-nodeless", "name": "nodeless", "versionInfo": version, "downloadLocation": source,
		"licenseDeclared": license, "filesAnalyzed": false,
		"checksums": []dict{{"algorithm": "SHA256", "checksumValue": sum}},
	}, {
		"SPDXID": "SPDXRef-go", "name": "go", "versionInfo": info.GoVersion, "downloadLocation": "https://go.dev/dl/",
		"filesAnalyzed": false, "externalRefs": purl("golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")),
	}}
	relations := []dict{
		{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-nodeless"},
		{"spdxElementId": "SPDXRef-nodeless", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": "SPDXRef-go"},
	}
	for i, m := range modules(info) {
		id := fmt.Sprintf("SPDXRef-module-%d", i+1)
		packages = append(packages, dict{
			"SPDXID": id, "name": m.Path, "versionInfo": m.Version, "filesAnalyzed": false,
			"downloadLocation": "https://proxy.golang.org/" + m.Path + "/@v/" + m.Version + ".zip",
			"externalRefs":     purl("golang/" + m.Path + "@" + m.Version),
		})
		relations = append(relations, dict{
			"spdxElementId": "SPDXRef-nodeless", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": id,
		})
	}
	return dict{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
		"name": "nodeless-" + version + "-linux-" + arch, "documentNamespace": source + "/spdx/" + sum,
		// Nothing but the program decides what the document says, its date included.
		"creationInfo": dict{"created": "1970-01-01T00:00:00Z", "creators": []string{"Tool: nodeless-release"}},
		"packages":     packages, "relationships": relations,
	}
}

func purl(name string) []dict {
	return []dict{{
		"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:" + name,
	}}
}

// modules are those in the program, as they were replaced, by name.
func modules(info *buildinfo.BuildInfo) []debug.Module {
	var out []debug.Module
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// provenance is an in-toto statement with SLSA's predicate (slsa.dev/spec/v1.0/provenance) of how an image was made.
func provenance(info *buildinfo.BuildInfo, arch, commit string, image v1.Hash) dict {
	var materials []dict
	for _, m := range modules(info) {
		materials = append(materials, dict{
			"uri":         "pkg:golang/" + m.Path + "@" + m.Version,
			"annotations": dict{"goSum": m.Sum},
		})
	}
	return dict{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []dict{{"name": repository, "digest": dict{image.Algorithm: image.Hex}}},
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": dict{
			"buildDefinition": dict{
				"buildType":            source + "/blob/main/release/image.go",
				"externalParameters":   dict{"command": "make image", "platform": "linux/" + arch},
				"resolvedDependencies": append([]dict{{"uri": "git+" + source, "digest": dict{"gitCommit": commit}}}, materials...),
				"internalParameters":   dict{"go": info.GoVersion, "settings": settings(info)},
			},
			"runDetails": dict{"builder": dict{"id": source + "/blob/main/Makefile"}},
		},
	}
}

func settings(info *buildinfo.BuildInfo) dict {
	out := dict{}
	for _, s := range info.Settings {
		out[s.Key] = s.Value
	}
	return out
}
