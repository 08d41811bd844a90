package sandbox

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bareBoot measures the lower bound: the same VMM, kernel and memory with a static busybox as the whole guest, from
// the start of the process to its first output.
func bareBoot(t *testing.T, cpuAndKernel ...string) start {
	t.Helper()
	dir := t.TempDir()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`set -e; cd %s; mkdir -p root/bin root/dev; cp %s root/bin/busybox; mknod root/dev/console c 5 1
printf '#!/bin/busybox sh\necho first\nexec /bin/busybox sleep 1000\n' > root/init; chmod +x root/init
cd root; %s find . | %s cpio -o -H newc > ../initrd 2>/dev/null`, dir, busybox, busybox, busybox)
	if said, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, said)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	q := driver(t)
	began := time.Now()
	args := append(cpuAndKernel, "-M", "microvm,isa-serial=on", "-m", strconv.Itoa(shape.MemoryMiB), "-initrd",
		filepath.Join(dir, "initrd"), "-nodefaults",
		"-no-user-config", "-no-reboot", "-display", "none", "-chardev",
		"socket,id=c,path="+filepath.Join(dir, "console"), "-serial", "chardev:c")
	cmd := exec.Command(q.Binary, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var said []byte
	for buf := make([]byte, 4096); !strings.Contains(string(said), "first"); {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		said = append(said, buf[:n]...)
	}
	return startOf(began, cmd.Process.Pid)
}
