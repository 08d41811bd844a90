package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// packAll packs a stand-in for the program for all platforms, and returns the options, which hold the folder.
func packAll(t *testing.T) options {
	t.Helper()
	o := options{root: "..", out: t.TempDir(), version: "1.2.3", platforms: platforms, say: io.Discard}
	binary := filepath.Join(t.TempDir(), program)
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho it runs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		if err := pack(o, p, binary); err != nil {
			t.Fatal(err)
		}
	}
	if err := writePlugin(o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestArchivesAreReproducibleAndHoldAProgramThatRuns(t *testing.T) {
	o, again := packAll(t), packAll(t)
	for _, p := range platforms {
		sum, err := fileSum(filepath.Join(o.out, p.archive(o.version)))
		if err != nil {
			t.Fatal(err)
		}
		if second, err := fileSum(filepath.Join(again.out, p.archive(o.version))); second != sum {
			t.Errorf("%s: %s, then %s, %v", p, sum, second, err)
		}
	}
	if names := namesIn(t, filepath.Join(o.out, "nodeless_1.2.3_linux_amd64.tar.gz")); !slices.Equal(names,
		[]string{"nodeless", "LICENSE", "README.md"}) {
		t.Errorf("an archive holds %v", names)
	}
	unpacked := t.TempDir()
	out, err := exec.Command("tar", "-xzf", filepath.Join(o.out, "nodeless_1.2.3_linux_amd64.tar.gz"), "-C", unpacked).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(filepath.Join(unpacked, program)).CombinedOutput(); string(out) != "it runs\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func namesIn(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		} else if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

func TestThePluginsManifestNamesTheArchives(t *testing.T) {
	o := packAll(t)
	text, err := os.ReadFile(filepath.Join(o.out, pluginFile))
	if err != nil {
		t.Fatal(err)
	}
	var m plugin
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.Metadata.Name != "nodeless" || m.Spec.Version != "v1.2.3" || len(m.Spec.Platforms) != len(platforms) {
		t.Errorf("%+v", m)
	}
	for i, p := range m.Spec.Platforms {
		sum, err := fileSum(filepath.Join(o.out, filepath.Base(p.URI)))
		if err != nil || sum != p.SHA256 || p.Selector.MatchLabels["os"] != platforms[i].os {
			t.Errorf("%+v: %s, %v", p, sum, err)
		}
	}
}

func TestChecksumsAreOfThisVersion(t *testing.T) {
	o := packAll(t)
	for _, name := range []string{"nodeless_1.2.2_linux_amd64.tar.gz", "nodeless-1.2.3.tgz", "root-amd64"} {
		if err := os.WriteFile(filepath.Join(o.out, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := checksums(o)
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command("sha256sum", "--check", "--strict")
	check.Dir, check.Stdin = o.out, strings.NewReader(sums)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if n := strings.Count(sums, "\n"); n != len(platforms)+2 || strings.Contains(sums, "1.2.2") {
		t.Errorf("%d checksums:\n%s", n, sums)
	}
}

func TestTheNotesAreTheVersionsSection(t *testing.T) {
	changelog := "# Changelog\n\n## Unreleased\n\n- soon\n\n## [1.2.3] - 2026-11-27\n\n### Added\n\n- a\n\n## [1.2.2]\n\n- b\n"
	for version, want := range map[string]string{
		"1.2.3": "### Added\n\n- a\n", "1.2.2": "- b\n", "1.2.4-dev.3.gabc": "- soon\n",
	} {
		if got, err := sectionOf(changelog, version); got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	if _, err := sectionOf(changelog, "1.2"); err == nil || !strings.Contains(err.Error(), `no heading "## [1.2]"`) {
		t.Error(err)
	}
}

func TestPlatformsAreChecked(t *testing.T) {
	if _, err := parsePlatforms("linux/amd64,windows/amd64"); err == nil ||
		!strings.Contains(err.Error(), `"windows/amd64" is none of `+fmt.Sprint(platforms)) {
		t.Error(err)
	}
}
