package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// platform is what a program is compiled for, as Go calls it.
type platform struct{ os, arch string }

// platforms are those that archives are made for.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func (p platform) String() string { return p.os + "/" + p.arch }

// tags are the program's build tags there. The control plane and microVMs need Linux; elsewhere it has the commands
// that ask a cluster, and the controller.
func (p platform) tags() string {
	if p.os == "linux" {
		return ""
	}
	return controllerTags
}

// archive is the file name of a platform's archive.
func (p platform) archive(version string) string {
	return fmt.Sprintf("%s_%s_%s_%s.tar.gz", program, version, p.os, p.arch)
}

// writeArchives compiles the program for each platform and packs it with the licence and the manual; with the krew
// manifest that names them.
func writeArchives(ctx context.Context, o options) error {
	for _, p := range o.platforms {
		binary, err := filepath.Abs(filepath.Join(o.out, "programs", p.os+"-"+p.arch, program))
		if err != nil {
			return err
		}
		if err := compile(ctx, o, p, p.tags(), binary); err != nil {
			return err
		}
		if err := pack(o, p, binary); err != nil {
			return fmt.Errorf("archive for %s: %w", p, err)
		}
		fmt.Fprintln(o.say, filepath.Join(o.out, p.archive(o.version)))
	}
	return writePlugin(o)
}

// pack writes the archive of a platform. The same files give the same archive: it has no times and no owners.
func pack(o options, p platform, binary string) (err error) {
	file, err := os.Create(filepath.Join(o.out, p.archive(o.version)))
	if err != nil {
		return err
	}
	defer func() {
		if e := file.Close(); err == nil {
			err = e
		}
	}()
	zip := gzip.NewWriter(file)
	archive := tar.NewWriter(zip)
	for _, f := range []struct {
		name, path string
		mode       int64
	}{
		{program, binary, 0o755},
		{"LICENSE", filepath.Join(o.root, "LICENSE"), 0o644},
		{"README.md", filepath.Join(o.root, "README.md"), 0o644},
	} {
		if err := add(archive, f.name, f.path, f.mode); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

func add(archive *tar.Writer, name, path string, mode int64) error {
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Size: info.Size(), Mode: mode, Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// listed is what parsePlatforms reads.
func listed(all []platform) string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.String()
	}
	return strings.Join(names, ",")
}

// parsePlatforms reads a list such as linux/amd64,darwin/arm64.
func parsePlatforms(text string) ([]platform, error) {
	var out []platform
	for item := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(platforms, func(p platform) bool { return p.String() == item })
		if i < 0 {
			return nil, fmt.Errorf("-platforms: %q is none of %v", item, platforms)
		}
		out = append(out, platforms[i])
	}
	return out, nil
}
