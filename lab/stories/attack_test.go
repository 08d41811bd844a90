package stories

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attackers is a Fargate profile that admits every pod.
const attackers = `
apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: attackers}
spec: {sizing: Exact, restrictions: None, storage: {ephemeral: 128Mi}, selectors: [{namespace: default}]}
`

// attackPod returns a pod that runs a command of the image's shell as root in its guest.
func attackPod(name, command string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, labels: {app: %[1]s}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: example.local/trial:1
    securityContext: {privileged: true}
    resources: {requests: {cpu: 250m, memory: 96Mi}}
    command: [sh, -c, %[2]q]
`, name, command)
}

// A pod with root in its guest attacks everything that the guest shares with its host. It forks, logs and fills its
// disk without end, sends packets with forged source addresses and malformed packets, and writes to the channel to
// its host and to its devices' registers. Meanwhile other pods are not slowed down much and receive only packets with
// the sender's own address, nothing is written outside the VM's folder, and the attackers disappear when they are
// deleted.
func TestPodsThatAttack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root microVMs have no network in which they could meet")
	}
	c := microVMs(t)
	c.buildTrialImages()
	began := time.Now()
	c.apply(attackers + attackPod("victim", "exec attack serve") + attackPod("peer", "exec sleep 1000"))
	victim, peer := c.readyPods("victim", 1)[0], c.readyPods("peer", 1)[0]
	page, line := "http://"+victim.Status.PodIP+":8080/", strings.Repeat("x", 200)

	c.attack(page, "forks", "sleep 3; bomb() { bomb | bomb & }; bomb; exec sleep 1000",
		"can't fork: Resource temporarily unavailable")
	c.attack(page, "logs", "sleep 3; mknod /tmp/tty c 4 64; yes >/tmp/tty & exec yes "+line, line+"\n"+line+"\n"+line)
	c.attack(page, "disk", "sleep 3; while :; do dd if=/dev/zero of=/big bs=1M; sleep 1; rm /big; done",
		"No space left on device")
	c.attack(page, "packets", "exec attack packets 60 "+victim.Status.PodIP+" "+peer.Status.PodIP+
		` $(ip route | awk '/default/{print $3}') $(awk '/nameserver/{print $2}' /etc/resolv.conf)`, "sending")
	heard := c.kubectl("logs", "victim")
	if !strings.Contains(heard, `"honest" from `) || strings.Contains(heard, "the ") {
		t.Errorf("the victim has heard %s; want only what its sender sent in its own name", heard)
	}
	if out := c.kubectl("exec", "peer", "--", "wget", "-qO-", page); out != "unharmed\n" {
		t.Errorf("a pod at whose address another claimed to be is told %q by the victim", out)
	}
	c.attack(page, "frames", "exec attack frames 75", "taking the channel")
	c.attack(page, "registers", "mount -t tmpfs none /tmp && cp /bin/attack /tmp && exec /tmp/attack registers 35",
		"writing into 8 devices")

	c.eventually(patience, func() error {
		if left := c.microVMProcesses(); len(left) != 2 {
			return fmt.Errorf("virtual machines when the attackers are deleted: %v", left)
		}
		return nil
	})
	c.wroteOnlyInTheirFolders(began)
}

// attack runs a pod that attacks and logs what it does. It measures the response time of a page with the attack and
// without it (the VM's process is stopped), alternately. In the best of five rounds a response takes at most twice as
// long under attack: other rounds may have coincided with other work on this host.
func (c *cluster) attack(page, name, command, says string) {
	c.t.Helper()
	c.apply(attackPod(name, command))
	c.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/"+name, "--timeout=240s")
	c.eventually(patience, func() error {
		if out := c.kubectl("logs", name, "--tail=100"); !strings.Contains(out, says) {
			return fmt.Errorf("pod %s has logged %q; want %q", name, out[max(0, len(out)-1000):], says)
		}
		return nil
	})
	machine := "microvm-" + c.kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}")
	best, all := math.Inf(1), ""
	for range 5 {
		pid := c.machineProcesses()[machine] // 0 if the host has ended it
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		without := c.latency(page)
		if pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		with := c.latency(page)
		ratio := float64(with) / float64(without)
		best, all = min(best, ratio), all+fmt.Sprintf(" %.2f (%s)", ratio, with.Round(10*time.Microsecond))
	}
	c.t.Logf("under %s an answer takes so many times as long:%s", name, all)
	if best > 2 {
		c.t.Errorf("under %s an answer takes %.1f times as long at best, want at most twice", name, best)
	}
	c.isBounded(name, machine)
	c.kubectl("delete", "pod", name, "--wait=false")
}

// isBounded checks that a microVM uses no more of this host's disk than the pod's own limit, two log files and a
// console.
func (c *cluster) isBounded(name, machine string) {
	c.t.Helper()
	var total int64
	for _, dir := range []string{"machines", "pods"} {
		_ = filepath.WalkDir(filepath.Join(c.dir, "microvms", dir), func(path string, _ fs.DirEntry, _ error) error {
			if info, err := os.Lstat(path); err == nil && strings.Contains(path, machine) {
				total += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			return nil
		})
	}
	c.t.Logf("pod %s takes %d MiB of the host's disk", name, total>>20)
	if total > 160<<20 {
		c.t.Errorf("the machine of pod %s takes %d MiB of the host's disk", name, total>>20)
	}
}

// latency is the median time of 41 requests, each on a new connection.
func (c *cluster) latency(page string) time.Duration {
	c.t.Helper()
	asker := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	took := make([]time.Duration, 41)
	for i := range took {
		began := time.Now()
		resp, err := asker.Get(page)
		if err != nil {
			c.t.Fatalf("the victim does not answer: %v", err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(text) != "unharmed\n" {
			c.t.Fatalf("the victim answers %q, %v", text, err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// firstMachineUser is the lowest user ID of microVMs (docs/adr/0053-qemu-gives-up-its-rights-itself.md).
const firstMachineUser = 0x7000_0000

// wroteOnlyInTheirFolders reports files outside the microVMs' folders that users of microVMs have created or changed
// since then.
func (c *cluster) wroteOnlyInTheirFolders(since time.Time) {
	c.t.Helper()
	machines := filepath.Join(c.dir, "microvms") + "/"
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", c.dir} {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			info, failed := os.Lstat(path)
			if err != nil || failed != nil || strings.HasPrefix(path, machines) || info.ModTime().Before(since) {
				return nil //nolint:nilerr // what is gone is no finding
			}
			if owner := info.Sys().(*syscall.Stat_t).Uid; owner >= firstMachineUser {
				c.t.Errorf("user %d of a virtual machine wrote %s", owner, path)
			}
			return nil
		})
	}
}
