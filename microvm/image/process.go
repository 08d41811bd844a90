package image

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Errors of Process, in the kubelet's wording where it has one. They become messages of CreateContainerConfigError or
// CreateContainerError.
var (
	ErrNoCommand = errors.New("no command specified")
	ErrRoot      = errors.New("container has runAsNonRoot and image will run as root")
)

// Container is the part of a pod's container that overrides its image. The caller has expanded $(NAME).
type Container struct {
	Command, Args []string
	Env           []string // NAME=value
	WorkingDir    string
	RunAsUser     *int64
	RunAsGroup    *int64
	RunAsNonRoot  bool
}

// Process is a process to start.
type Process struct {
	Argv []string
	Env  []string // each name once
	Dir  string   // absolute
	// StopSignal is the image's, as the image writes it; "" if it has none.
	StopSignal string
	Identity
}

// Process combines the image's configuration with the container's.
func (i *Image) Process(c Container) (Process, error) {
	argv, err := i.Config.argv(c)
	if err != nil {
		return Process{}, fmt.Errorf("image %s: %w", i.Name, err)
	}
	who, err := i.identity(c)
	if err != nil {
		return Process{}, fmt.Errorf("image %s: %w", i.Name, err)
	}
	dir := i.Config.WorkingDir
	if c.WorkingDir != "" {
		dir = c.WorkingDir
	}
	return Process{
		Argv: argv, Env: i.Config.env(c, who), Dir: path.Join("/", dir), StopSignal: i.Config.StopSignal,
		Identity: who,
	}, nil
}

// argv follows the table in the Kubernetes documentation (Define a Command and Arguments for a Container): command
// replaces the image's entrypoint and cmd, args alone replaces cmd.
func (c Config) argv(by Container) ([]string, error) {
	entrypoint, args := c.Entrypoint, c.Cmd
	if len(by.Command) > 0 {
		entrypoint, args = by.Command, nil
	}
	if len(by.Args) > 0 {
		args = by.Args
	}
	argv := append(append([]string{}, entrypoint...), args...)
	if len(argv) == 0 {
		return nil, fmt.Errorf("%w: the image has neither ENTRYPOINT nor CMD; set the container's command", ErrNoCommand)
	}
	return argv, nil
}

// defaultPath is what Docker and containerd set for an image without a PATH.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// env adds the container's variables to the image's. As under containerd, PATH and HOME always exist.
func (c Config) env(by Container, who Identity) []string {
	var all []string
	at := map[string]int{}
	for _, kv := range append(append([]string{defaultPath, "HOME=" + who.Home}, c.Env...), by.Env...) {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			all[i] = kv
			continue
		}
		at[name] = len(all)
		all = append(all, kv)
	}
	return all
}
