package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// described is what `git describe --long` prints behind a tag: how many commits ago it was, and the commit.
var described = regexp.MustCompile(`^v?(\d+\.\d+\.\d+\S*)-(\d+)-g([0-9a-f]+)$`)

// gitVersion is the version of the checked-out commit: that of its tag, or a pre-release of the next patch.
func gitVersion(ctx context.Context, root string) (string, error) {
	commit, err := git(ctx, root, "rev-parse", "--short=7", "HEAD")
	if err != nil {
		return "", fmt.Errorf("ask git for the version: %w; give -version", err)
	}
	tag, err := git(ctx, root, "describe", "--tags", "--long", "--always", "--abbrev=7", "--match", "v[0-9]*")
	if err != nil {
		return "", fmt.Errorf("ask git for the version: %w; give -version", err)
	}
	if tag == commit {
		return "0.0.0-dev.g" + commit, nil // no tag yet
	}
	return versionOf(tag)
}

// versionOf turns what `git describe --long` prints into a SemVer version.
func versionOf(tag string) (string, error) {
	m := described.FindStringSubmatch(tag)
	if m == nil {
		return "", fmt.Errorf("git's tag %q is no version: tags are v1.2.3", tag)
	}
	if m[2] == "0" {
		return m[1], nil
	}
	return fmt.Sprintf("%s-dev.%s.g%s", m[1], m[2], m[3]), nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}
