package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeNotes writes what the changelog says of the version, and the checksums of all files of the release.
func writeNotes(_ context.Context, o options) error {
	changelog, err := os.ReadFile(filepath.Join(o.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	section, err := sectionOf(string(changelog), o.version)
	if err != nil {
		return err
	}
	notes := filepath.Join(o.out, "notes.md")
	if err := os.WriteFile(notes, []byte(section), 0o644); err != nil { // #nosec G306 -- to be published
		return err
	}
	sums, err := checksums(o)
	if err != nil {
		return err
	}
	path := filepath.Join(o.out, "checksums.txt")
	fmt.Fprintf(o.say, "%s\n%s\n", notes, path)
	return os.WriteFile(path, []byte(sums), 0o644) // #nosec G306 -- to be published
}

// sectionOf is the section of a changelog about a version, without its heading; of a pre-release, that about what is
// unreleased (keepachangelog.com/en/1.1.0).
func sectionOf(changelog, version string) (string, error) {
	heading := "## [" + version + "]"
	if strings.Contains(version, "-") {
		heading = "## Unreleased"
	}
	_, after, found := strings.Cut("\n"+changelog, "\n"+heading)
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no heading %q: name what has changed there", heading)
	}
	_, after, _ = strings.Cut(after, "\n") // a date
	section, _, _ := strings.Cut("\n"+after, "\n## ")
	return strings.TrimSpace(section) + "\n", nil
}

// checksums are the SHA-256 sums of the version's archives and charts, and of the krew manifest, as `sha256sum --check`
// reads them.
func checksums(o options) (string, error) {
	var out strings.Builder
	files, err := os.ReadDir(o.out)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		ofVersion := strings.Contains(f.Name(), o.version) && slices.Contains([]string{".gz", ".tgz"}, filepath.Ext(f.Name()))
		if !ofVersion && f.Name() != pluginFile {
			continue
		}
		sum, err := fileSum(filepath.Join(o.out, f.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, f.Name())
	}
	return out.String(), nil
}
