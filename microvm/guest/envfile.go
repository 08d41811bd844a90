package guest

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// The pause before files of variables are read again, as of the host before it translates a pod again, and the largest
// such file.
const (
	configPause = 2 * time.Second
	maxEnvFile  = 1 << 20
)

// awaitConfig waits until the container has what its next run needs: what its host supplies, and variables from files
// of volumes. As with a kubelet, no other container waits for it. It returns false if it must end first.
func (c *container) awaitConfig() bool {
	for {
		c.pod.mu.Lock()
		next, supplied := c.next, c.supplied
		c.pod.mu.Unlock()
		held := c.configure(next)
		if held == nil {
			return true
		}
		var again <-chan time.Time
		if next.Held == nil {
			again = time.After(configPause)
		}
		select {
		case <-supplied:
		case <-again:
		case <-c.over:
			return false
		case <-c.pod.stopping:
			c.pod.update(c.settle)
			return false
		}
	}
}

// configure makes the next run like this. If it cannot, it returns and reports why.
func (c *container) configure(next wire.Container) (held *wire.Held) {
	held = next.Held
	if held == nil {
		args, env, err := variables(next, c.pod.envFile)
		if err == nil {
			next.Args, next.Env = args, env
			c.pod.mu.Lock()
			defer c.pod.mu.Unlock()
			c.active, c.status.User = next, &next.User
			return nil
		}
		held = &wire.Held{Reason: "CreateContainerConfigError", Message: err.Error()}
	}
	c.pod.update(func() {
		s := &c.status
		if next.Held == nil && s.Message != held.Message { // otherwise the host records the event
			c.pod.event(wire.Event{
				Container: c.spec.Name, Warning: true, Reason: "Failed", Message: "Error: " + held.Message,
			})
		}
		s.LastExit = previous(s)
		s.State, s.Exit, s.Reason, s.Message = wire.Waiting, nil, held.Reason, held.Message
		s.Started = time.Time{}
	})
	return held
}

// variables returns a container's arguments and environment with the values from files.
func variables(c wire.Container, read func(wire.EnvFile) (string, error)) (args, env []string, err error) {
	if len(c.EnvFiles) == 0 {
		return c.Args, c.Env, nil
	}
	env = slices.Clone(c.Env)
	var marks []string // and after each what replaces it
	for _, f := range c.EnvFiles {
		value, err := read(f)
		switch {
		case err != nil:
			return nil, nil, err
		case value == "" && f.Optional:
			value = strings.NewReplacer(marks...).Replace(f.Otherwise)
		case value == "":
			return nil, nil, fmt.Errorf("environment variable key %q not found in file %q", f.Key, f.Path)
		case f.Name != "":
			env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, f.Name+"=") })
			env = append(env, f.Name+"="+f.Mark)
		}
		marks = append(marks, f.Mark, value)
	}
	values := strings.NewReplacer(marks...)
	return replaced(c.Args, values), replaced(env, values), nil
}

func replaced(words []string, by *strings.Replacer) (out []string) {
	for _, w := range words {
		out = append(out, by.Replace(w))
	}
	return out
}

// envFile returns the value of a key in a file of a volume, out of which no link leads; "" if it is not there.
func (p *pod) envFile(f wire.EnvFile) (string, error) {
	dir, _, err := p.volumeDir(f.Volume)
	if err != nil {
		return "", err
	}
	content, err := readEnvFile(dir, f.Path)
	if err != nil {
		return "", fmt.Errorf("couldn't parse env file: %w", err)
	}
	value, err := envValue(content, f.Key)
	if err != nil {
		return "", fmt.Errorf("couldn't parse env file %q: %w", f.Path, err)
	}
	return value, nil
}

// readEnvFile returns the content of a file below a directory. It refuses what could block it, as a FIFO does.
func readEnvFile(dir, path string) (string, error) {
	volume, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = volume.Close() }()
	file, err := volume.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%q is not a regular file", path)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err != nil {
		return "", err
	}
	if len(content) > maxEnvFile {
		return "", fmt.Errorf("%q has more than %d bytes", path, maxEnvFile)
	}
	return string(content), nil
}

// envValue returns the value of a key in a file with lines of NAME='value'. As with a kubelet, a value may have several
// lines, a comment may follow it, and blanks before it make it empty (Kubernetes documentation, "Define Environment
// Variable Values Using An Init Container"). Errors are told to those who may read the pod, so they do not say what is
// in the file.
func envValue(content, key string) (string, error) {
	content = strings.TrimSuffix(strings.ReplaceAll(content, "\r\n", "\n"), "\r")
	for rest := content; rest != ""; {
		before := content[:len(content)-len(rest)]
		invalid := func(fault string) (string, error) {
			return "", fmt.Errorf("line %d: %s", 1+strings.Count(before, "\n"), fault)
		}
		line, after, _ := strings.Cut(rest, "\n")
		line = strings.TrimLeft(line, " \t")
		name, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
			rest = after
			continue
		case !assigned || name == "" || name != strings.TrimRight(name, " \t"):
			return invalid("not of the form NAME='value'")
		case value != strings.TrimLeft(value, " \t"):
			value, rest = "", after
		default:
			_, value, _ = strings.Cut(rest, "=")
			quoted, found := strings.CutPrefix(value, "'")
			value, rest, assigned = strings.Cut(quoted, "'")
			if !found || !assigned {
				return invalid("the value must be enclosed in single quotes")
			}
			line, rest, _ = strings.Cut(rest, "\n")
			if line = strings.TrimLeft(line, " \t"); line != "" && line[0] != '#' {
				return invalid("unexpected content after the value")
			}
		}
		if name == key {
			return value, nil
		}
	}
	return "", nil
}
