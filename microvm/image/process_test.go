package image

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

func of(c Config) *Image {
	return &Image{Name: "app", Config: c, accounts: rootdisk.Accounts{
		Passwd: []byte("root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1000:1001::/home/app:/bin/sh\nhuge:x:99999999999:1::/:\n"),
		Group:  []byte("root:x:0:\nstaff:x:50:app,other\nwheel:x:10:app\napp:x:1001:app\n"),
	}}
}

// The table in "Define a Command and Arguments for a Container" of the Kubernetes documentation.
func TestCommandAndArgs(t *testing.T) {
	img := of(Config{Entrypoint: []string{"/ep-1"}, Cmd: []string{"foo", "bar"}})
	for _, c := range []struct{ command, args, want string }{
		{"", "", "/ep-1 foo bar"},
		{"/ep-2", "", "/ep-2"},
		{"", "zoo boo", "/ep-1 zoo boo"},
		{"/ep-2", "zoo boo", "/ep-2 zoo boo"},
	} {
		p, err := img.Process(Container{Command: strings.Fields(c.command), Args: strings.Fields(c.args)})
		if err != nil || strings.Join(p.Argv, " ") != c.want {
			t.Errorf("%q %q: %q, %v; want %q", c.command, c.args, p.Argv, err, c.want)
		}
	}
	_, err := of(Config{}).Process(Container{})
	if !errors.Is(err, ErrNoCommand) {
		t.Errorf("nothing to run: %v", err)
	}
	says(t, err, "image app", "no command specified", "set the container's command")
}

func TestEnvironmentAndDirectory(t *testing.T) {
	img := of(Config{Cmd: []string{"x"}, Env: []string{"PATH=/bin", "A=image", "B=image"}, WorkingDir: "srv/app"})
	p, err := img.Process(Container{Env: []string{"B=pod", "C=pod"}})
	must(t, err)
	if want := []string{"PATH=/bin", "HOME=/root", "A=image", "B=pod", "C=pod"}; !slices.Equal(p.Env, want) ||
		p.Dir != "/srv/app" {
		t.Errorf("env %q in %s, want %q", p.Env, p.Dir, want)
	}
	p, err = of(Config{Cmd: []string{"x"}}).Process(Container{WorkingDir: "/tmp", Env: []string{"HOME=/h"}})
	must(t, err)
	if want := []string{defaultPath, "HOME=/h"}; !slices.Equal(p.Env, want) || p.Dir != "/tmp" {
		t.Errorf("env %q in %s, want %q", p.Env, p.Dir, want)
	}
}

func TestUsers(t *testing.T) {
	id := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		idea, user string
		by         Container
		want       Identity
	}{
		{"nobody says anything", "", Container{}, Identity{Home: "/root"}},
		{"a name", "app", Container{}, Identity{UID: 1000, GID: 1001, Groups: []uint32{10, 50}, Home: "/home/app"}},
		{
			"a name and a group", "app:staff",
			Container{},
			Identity{UID: 1000, GID: 50, Groups: []uint32{10, 1001}, Home: "/home/app"},
		},
		{
			"a number with an entry", "1000",
			Container{},
			Identity{UID: 1000, GID: 1001, Groups: []uint32{10, 50}, Home: "/home/app"},
		},
		{"a number without", "65532:65533", Container{}, Identity{UID: 65532, GID: 65533, Home: "/"}},
		{
			"the container decides", "app:staff",
			Container{RunAsUser: id(7), RunAsGroup: id(8)},
			Identity{UID: 7, GID: 8, Home: "/"},
		},
		{
			"the group alone", "app",
			Container{RunAsGroup: id(10)},
			Identity{UID: 1000, GID: 10, Groups: []uint32{50, 1001}, Home: "/home/app"},
		},
		{
			"not root, and it is not", "app",
			Container{RunAsNonRoot: true},
			Identity{UID: 1000, GID: 1001, Groups: []uint32{10, 50}, Home: "/home/app"},
		},
	} {
		p, err := of(Config{Cmd: []string{"x"}, User: c.user}).Process(c.by)
		if err != nil || p.UID != c.want.UID || p.GID != c.want.GID || !slices.Equal(p.Groups, c.want.Groups) ||
			p.Home != c.want.Home {
			t.Errorf("%s: %+v, %v; want %+v", c.idea, p.Identity, err, c.want)
		}
	}
	for _, c := range []struct {
		user string
		by   Container
		want []string
	}{
		{"ghost", Container{}, []string{`user "ghost" is not in the image's /etc/passwd`, "use a number"}},
		{"app:ghosts", Container{}, []string{`group "ghosts" is not in the image's /etc/group`}},
		{"huge", Container{}, []string{"not in the image's /etc/passwd"}},
		{"4294967295", Container{}, []string{"not a user ID"}},
		{"", Container{RunAsUser: id(-1)}, []string{`user "-1"`}},
		{"", Container{RunAsGroup: id(1 << 40)}, []string{"runAsGroup", "not a group ID"}},
		{
			"",
			Container{RunAsNonRoot: true},
			[]string{"container has runAsNonRoot and image will run as root", "set runAsUser"},
		},
		{"root", Container{RunAsNonRoot: true}, []string{"container has runAsNonRoot and image will run as root"}},
	} {
		_, err := of(Config{Cmd: []string{"x"}, User: c.user}).Process(c.by)
		says(t, err, append(c.want, "image app")...)
	}
}
