package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/kubernetes/test/utils/image"
)

// testImage is an image of the suite, and what it is assembled from.
type testImage struct {
	ids      []image.ImageID
	files    map[string]string // by path in the image: programs from build, and files of the module
	content  map[string]string // other files, by path
	programs []string          // of this machine, with the libraries they need
	setuid   string            // path of a setuid program
	flags    []string          // of nodeless image build
}

// shell are the programs other than busybox's that the suite's scripts call, in images that have them.
var shell = []string{"bash", "curl", "dig", "getent", "nc", "ip"}

// passwd has the users and groups that the suite expects in agnhost.
var passwd = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n",
	"etc/group": "root:x:0:\nuser-defined-in-image:x:1000:\n" +
		"group-defined-in-image:x:50000:user-defined-in-image\n",
	"etc/nsswitch.conf": "hosts: files dns\n",
	// The test of image volumes reads this file.
	"etc/os-release": "NAME=\"Alpine Linux\"\nID=alpine\n",
}

const images = kubernetes + "/test/images/"

func agnhost(cmd ...string) []string {
	return append([]string{"--entrypoint", "/agnhost", "--"}, cmd...)
}

var testImages = []testImage{
	{
		ids: []image.ImageID{image.Agnhost, image.AgnhostPrev}, content: passwd, programs: shell, flags: agnhost("pause"),
		files: map[string]string{
			"agnhost": "agnhost", "agnhost-2": "agnhost", "localhost.crt": images + "agnhost/porter/localhost.crt",
			"localhost.key": images + "agnhost/porter/localhost.key",
		},
	},
	{
		ids:   []image.ImageID{image.APIServer},
		files: map[string]string{"sample-apiserver": "sample-apiserver"},
		flags: []string{"--entrypoint", "/sample-apiserver"},
	},
	{
		ids:   []image.ImageID{image.Etcd},
		files: map[string]string{"usr/local/bin/etcd": "etcd"},
		flags: []string{"--entrypoint", "/usr/local/bin/etcd"},
	},
	{ids: []image.ImageID{image.Pause}, files: map[string]string{"agnhost": "agnhost"}, flags: agnhost("pause")},
	// with bash, since the shell of Debian's busybox drops variables whose names are not identifiers
	{ids: []image.ImageID{image.BusyBox}, content: passwd, programs: []string{"bash"}, flags: []string{"--", "sh"}},
	{ids: []image.ImageID{image.NonRoot}, content: passwd, flags: []string{"--user", "1234", "--", "sh"}},
	{ids: []image.ImageID{image.GlibcDnsTesting}, content: passwd, programs: shell, flags: []string{"--", "sh"}},
	{
		ids: []image.ImageID{image.Nonewprivs}, files: map[string]string{"usr/local/bin/nnp": "nnp"},
		setuid: "usr/local/bin/nnp", flags: []string{"--", "nnp"},
	},
	webServer(image.Kitten, "kitten"), webServer(image.Nautilus, "nautilus"),
	{
		ids: []image.ImageID{image.Nginx, image.NginxNew}, content: passwd, programs: shell,
		files: map[string]string{"agnhost": "agnhost"}, flags: agnhost("netexec", "--http-port=80"),
	},
}

// webServer returns an image that serves a file, in which the suite reads the name of a picture.
func webServer(id image.ImageID, name string) testImage {
	return testImage{
		ids: []image.ImageID{id}, content: map[string]string{
			"data.json": fmt.Sprintf("{\"image\": \"%s.jpg\"}\n", name), "etc/os-release": passwd["etc/os-release"],
			"etc/passwd": passwd["etc/passwd"],
		},
		files: map[string]string{"agnhost": "agnhost"}, flags: agnhost("test-webserver"),
	}
}

// makeImages builds the images into the cluster's cache.
func (o options) makeImages(ctx context.Context, dataDir string) error {
	module, err := o.goTool(ctx, "list", "-m", "-f", "{{.Dir}}", kubernetes)
	if err != nil {
		return err
	}
	for _, i := range testImages {
		dir, err := os.MkdirTemp("", "nodeconform-")
		if err != nil {
			return err
		}
		err = i.assemble(dir, o.dir, strings.TrimSpace(module))
		for _, id := range i.ids {
			if err != nil {
				break
			}
			args := append([]string{"image", "build", dir, "--data-dir", dataDir, "--tag", image.GetE2EImage(id)}, i.flags...)
			if out, failed := exec.CommandContext(ctx, o.nodeless, args...).CombinedOutput(); failed != nil {
				err = fmt.Errorf("image %s: %w\n%s", image.GetE2EImage(id), failed, out)
			}
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	return nil
}

// assemble creates the image's root file system.
func (i testImage) assemble(dir, built, module string) error {
	for _, d := range []string{"bin", "etc", "home", "root", "tmp", "uploads", "usr/bin", "usr/local/bin", "var"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky); err != nil {
		return err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("%w (Debian: apt-get install busybox-static)", err)
	}
	if err := copyFile(busybox, filepath.Join(dir, "bin/busybox")); err != nil {
		return err
	}
	if out, err := exec.Command(filepath.Join(dir, "bin/busybox"), "--install", "-s", filepath.Join(dir, "bin")).
		CombinedOutput(); err != nil {
		return fmt.Errorf("install busybox: %w\n%s", err, out)
	}
	if err := relink(filepath.Join(dir, "bin"), dir); err != nil {
		return err
	}
	for path, content := range i.content {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			return err
		}
	}
	for path, name := range i.files {
		from := filepath.Join(built, name)
		if rest, ok := strings.CutPrefix(name, kubernetes+"/"); ok {
			from = filepath.Join(module, rest)
		}
		if err := copyFile(from, filepath.Join(dir, path)); err != nil {
			return err
		}
	}
	for _, name := range i.programs {
		if err := copyProgram(name, dir); err != nil {
			return err
		}
	}
	if i.setuid != "" {
		return os.Chmod(filepath.Join(dir, i.setuid), 0o755|os.ModeSetuid|os.ModeSetgid)
	}
	return nil
}

// relink makes links to a program below dir point to its path in the image.
func relink(links, dir string) error {
	entries, err := os.ReadDir(links)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(links, e.Name())
		to, err := os.Readlink(path)
		if err != nil {
			continue // not a link
		}
		if err := errors.Join(os.Remove(path), os.Symlink(strings.TrimPrefix(to, dir), path)); err != nil {
			return err
		}
	}
	return nil
}

// copyProgram copies a program of this machine with its libraries. It skips a missing program; the specs that need it
// fail.
func copyProgram(name, dir string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		say("%s is not installed here: specs that call it will fail", name)
		return nil
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	target := filepath.Join(dir, "usr/bin", name)
	if err := copyFile(path, target); err != nil {
		return err
	}
	out, _ := exec.Command("ldd", path).Output() // fails for a static program, which has none
	for word := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		if err := copyFile(word, filepath.Join(dir, word)); err != nil {
			return err
		}
	}
	if name == "bash" { // the suite's scripts are written for it
		link := filepath.Join(dir, "bin/sh")
		_ = os.Remove(link)
		return errors.Join(os.Symlink("/usr/bin/bash", link), os.Symlink("/usr/bin/bash", filepath.Join(dir, "bin/bash")))
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	_ = os.Remove(to)
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
