package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// writeTestLayout writes an image layout with a stand-in for the program: this test's binary.
func writeTestLayout(t *testing.T) (string, v1.Hash) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	o := options{root: "..", out: t.TempDir(), version: "1.2.3", archs: []string{"amd64", "arm64"}}
	for _, arch := range o.archs {
		if err := emptyRoot(rootOf(o, arch)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(rootOf(o, arch), program), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	digest, err := writeLayout(o, strings.Repeat("a", 40))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(o.out, "image"), digest
}

func TestTheImageIsReproducibleAndRunsAsNobody(t *testing.T) {
	path, digest := writeTestLayout(t)
	if _, again := writeTestLayout(t); again != digest {
		t.Errorf("%s, then %s", digest, again)
	}
	l, err := layout.ImageIndexFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	index, err := l.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		d := manifest.Manifests[i]
		if d.Platform == nil || d.Platform.Architecture != arch || d.Platform.OS != "linux" {
			t.Errorf("image %d is for %v, want linux/%s", i, d.Platform, arch)
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if file.Architecture != arch || file.Config.User != "65532:65532" || file.Config.Entrypoint[0] != "/nodeless" ||
			!file.Created.IsZero() {
			t.Errorf("%s: %+v", arch, file)
		}
	}
}

// Referrers of an image are found by their subject, as registries do for the referrers API.
func TestTheImageHasABillOfMaterialsAndAProvenance(t *testing.T) {
	path, digest := writeTestLayout(t)
	l, err := layout.ImageIndexFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	index, err := l.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests {
		documents := referrers(t, l, d.Digest)
		if spdx := documents["application/spdx+json"]; !strings.Contains(spdx, `"spdxVersion": "SPDX-2.3"`) ||
			!strings.Contains(spdx, "pkg:golang/github.com/google/go-containerregistry@v0.") {
			t.Errorf("SPDX document of %s:\n%.400s", d.Platform, spdx)
		}
		if slsa := documents["application/vnd.in-toto+json"]; !strings.Contains(slsa, d.Digest.Hex) ||
			!strings.Contains(slsa, strings.Repeat("a", 40)) {
			t.Errorf("provenance of %s:\n%.400s", d.Platform, slsa)
		}
	}
}

// referrers returns the documents that refer to an image, by artifact type.
func referrers(t *testing.T, l v1.ImageIndex, subject v1.Hash) map[string]string {
	t.Helper()
	all, err := l.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, d := range all.Manifests {
		if d.ArtifactType == "" {
			continue
		}
		image, err := l.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		m, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == nil || m.Subject.Digest != subject {
			continue
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		r, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) {
			t.Errorf("%s is no JSON", d.ArtifactType)
		}
		out[d.ArtifactType] = string(text)
	}
	return out
}

func TestTheVersionComesFromGitsTags(t *testing.T) {
	for tag, want := range map[string]string{
		"v1.2.3-0-gabcdef0": "1.2.3", "v1.2.3-14-gabcdef0": "1.2.3-dev.14.gabcdef0",
		"v1.2.3-rc.1-0-gabcdef0": "1.2.3-rc.1", "nightly-3-gabcdef0": "",
	} {
		got, err := versionOf(tag)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", tag, got, err, want)
		}
	}
}
