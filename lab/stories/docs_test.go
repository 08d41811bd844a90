package stories

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const root = "../.."

// commandBlocks returns the blocks of a document in a language, in order.
func commandBlocks(t *testing.T, path, language string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(data), "```"+language+"\n")[1:] {
		block, _, ok := strings.Cut(part, "```")
		if !ok {
			t.Fatalf("%s: a block of commands is not closed", path)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// Every ```sh block of README and docs runs as written, those of one document in one shell. Documents that use
// microVMs run one after another, then the others in parallel.
func TestDocumentsRunAsWritten(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := absolute(t, binary)
	for _, path := range append([]string{filepath.Join(root, "README.md")}, documents...) {
		blocks := commandBlocks(t, path, "sh")
		if len(blocks) == 0 {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			if strings.Contains(strings.Join(blocks, ""), "examples/fargate") {
				needMicroVMs(t)
			} else {
				t.Parallel()
			}
			if strings.Contains(strings.Join(blocks, ""), "nodeless run ") {
				controllersPorts.Lock()
				defer controllersPorts.Unlock()
			}
			dir := t.TempDir()
			documentTools(t, filepath.Join(dir, "bin"), strings.Join(blocks, ""))
			if err := os.Symlink(absolute(t, filepath.Join(root, "examples")), filepath.Join(dir, "examples")); err != nil {
				t.Fatal(err)
			}
			env := []string{
				"NODELESS_GUEST_KERNEL=" + guestKernel(), "HOME=" + dir,
				"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "NO_COLOR=1",
				"NODELESS_DATA_DIR=" + filepath.Join(dir, "data"),
			}
			t.Cleanup(func() {
				stop := exec.Command(program, "down", "--wipe")
				stop.Env = env
				out, err := stop.CombinedOutput()
				if err != nil {
					t.Errorf("down: %v\n%s", err, out)
				}
				if left, _ := os.ReadDir(filepath.Join(dir, "data")); len(left) > 1 || len(left) == 1 && left[0].Name() != "host" {
					t.Errorf("a wipe leaves %v:\n%s", left, out)
				}
			})
			document, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			shown := outputRecorder{dir: t.TempDir(), samples: samples(string(document)), recorded: map[int]bool{}}
			script := ""
			for _, b := range blocks {
				for _, line := range strings.SplitAfter(b, "\n") {
					if strings.HasPrefix(line, "make ") {
						checkTarget(t, strings.Fields(line)[1])
						continue
					}
					script += shown.record(line)
				}
			}
			sh := exec.Command("bash", "-euo", "pipefail", "-x", "-c", script)
			sh.Dir, sh.Env = dir, env
			sh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := combinedOutput(sh, untilDeadline(t))
			if err != nil {
				t.Errorf("%s: %v\n%s", path, err, out)
				return
			}
			shown.compare(t, path)
		})
	}
}

// controllersPorts is held by the one document whose controller serves metrics and health on the default ports.
var controllersPorts sync.Mutex

// documentTools puts the programs of a document's commands into a folder: nodeless, kubectl for the cluster that the
// document has chosen, and the AWS CLI for the region of nodeless env. Where a document has chosen no cluster, kubectl
// fails: it would act on whichever a reader last used. The test is skipped without an AWS CLI that the document needs.
func documentTools(t *testing.T, bin, commands string) {
	t.Helper()
	if regexp.MustCompile(`(?m)(^|\$\()aws `).MatchString(commands) {
		needAWS(t)
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(absolute(t, binary), filepath.Join(bin, "nodeless")); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"kubectl": `exec nodeless kubectl --kubeconfig "${KUBECONFIG:?first nodeless env, or use nodeless kubectl}" "$@"`,
		// Debian's version does not read AWS_ENDPOINT_URL.
		"aws": `exec ` + debianAWS + ` --endpoint-url "$AWS_ENDPOINT_URL" "$@"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// debianAWS is the AWS CLI that scripts/test-deps installs.
const debianAWS = "/usr/bin/aws"

// needAWS skips the test where Debian's AWS CLI is absent, or fails it where AWS's clients are required.
func needAWS(t *testing.T) {
	t.Helper()
	out, err := exec.Command(debianAWS, "--version").CombinedOutput()
	if err != nil && os.Getenv("NODELESS_REQUIRE_BOTO3") == "1" {
		t.Fatalf("the AWS CLI is required but absent: apt-get install -y awscli\n%s", out)
	} else if err != nil {
		t.Skip("the AWS CLI is absent, so its commands were not tried: apt-get install -y awscli")
	}
}

// untilDeadline returns how long a command may take so that the test can clean up and report before its deadline: at
// most 20 minutes, since a loop of a document may wait for what never becomes true.
func untilDeadline(t *testing.T) time.Duration {
	limit := 20 * time.Minute
	if deadline, ok := t.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-2*time.Minute)
	}
	return limit
}

// combinedOutput collects the command's output in a file, since background processes would keep a pipe open.
func combinedOutput(cmd *exec.Cmd, limit time.Duration) (string, error) {
	f, err := os.CreateTemp("", "nodeless-doc")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return "", err
	}
	timer := time.AfterFunc(limit, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	err = cmd.Wait()
	data, _ := os.ReadFile(f.Name())
	return string(data), err
}

// checkTarget checks that make knows a target.
func checkTarget(t *testing.T, target string) {
	t.Helper()
	cmd := exec.Command("make", "-n", target)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("make %s: %v\n%s", target, err, out)
	}
}

// Commands of ```bash blocks, which cannot run here (internal/arch has the reasons), exist and have the flags.
func TestCommandsOfDocumentsThatDoNotRunExist(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range documents {
		for _, block := range commandBlocks(t, path, "bash") {
			for _, m := range regexp.MustCompile(`(?m)^(?:kubectl )?nodeless ([a-z]+)(.*)$`).FindAllStringSubmatch(block, -1) {
				checked++
				help, err := exec.Command(binary, m[1], "--help").CombinedOutput()
				if err != nil || !strings.Contains(string(help), "nodeless "+m[1]) {
					t.Errorf("%s: %s: %v\n%s", path, m[0], err, help)
				}
				for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(m[2], -1) {
					if !strings.Contains(string(help), " "+flag+" ") {
						t.Errorf("%s: %s: there is no flag %s", path, m[0], flag)
					}
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no commands were found")
	}
}

func TestReadmeIsShort(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("\n")); n > 120 {
		t.Errorf("README.md has %d lines, at most 120 are allowed", n)
	}
}

// What a newcomer types: `nodeless up --demo` (make up builds and runs this), and Ctrl-C when all pods run.
func TestDemoUntilCtrlC(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--demo", "--boot-time", "1s")
	c.start()
	c.eventually(2*time.Minute, func() error {
		if !strings.Contains(c.log(), "All 100 pods run") {
			return os.ErrNotExist
		}
		return nil
	})
	out := c.log()
	for _, want := range []string{"Nodes are simulated", "inflate", "$"} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo does not say %q:\n%s", want, out)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples(string(readme)) {
		if s.command == "make up" {
			compareSample(t, filepath.Join(root, "README.md"), s, out)
		}
	}
	config, err := os.ReadFile(filepath.Join(c.home, ".kube", "config"))
	if err != nil || !strings.Contains(string(config), "name: nodeless-nodeless") {
		t.Errorf("context nodeless-nodeless is not in the kubeconfig (%v):\n%s", err, config)
	}
	c.stop(syscall.SIGINT)
	if out, err := c.run("status", "--data-dir", c.dir); err == nil || !strings.Contains(out, "Nothing runs") {
		t.Errorf("status after Ctrl-C: %v %q", err, out)
	}
	c.start() // the state is kept: the pods run again without a new launch
	c.wantPods(2*time.Minute, "default", "inflate", 100)
}
