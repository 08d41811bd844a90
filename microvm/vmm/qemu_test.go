package vmm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/microvmtest"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

var small = vmm.Shape{CPUs: 1, MemoryMiB: 128}

// session starts a session with the VM's agent.
func session(t *testing.T, p *vmm.Process) *wire.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := p.Dial(ctx)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.LastWords())
	}
	go func() { _ = c.Serve() }()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// runPod starts a pod with one container, waits for its end, and returns what it has logged.
func runPod(t *testing.T, c *wire.Conn, pod wire.Pod) (string, wire.ContainerStatus) {
	t.Helper()
	ctx := t.Context()
	if err := c.Call(ctx, wire.KindStart, pod, nil); err != nil {
		t.Fatal(err)
	}
	watch, err := c.Open(wire.KindWatch, nil)
	if err != nil {
		t.Fatal(err)
	}
	var update wire.Update
	for !update.Status.Done {
		it, err := watch.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if update, err = wire.Message[wire.Update](it); err != nil {
			t.Fatal(err)
		}
	}
	if update.Status.Failure != "" {
		t.Fatal(update.Status.Failure)
	}
	logs, err := c.Open(wire.KindLogs, wire.LogsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	it, err := logs.Receive()
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.DecodeLogRecord(it.Channel, it.Data)
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Line), update.Status.Containers[0]
}

func TestQEMURunsContainer(t *testing.T) {
	q := microvmtest.QEMU(t)
	found, err := q.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", found)
	disk := vmm.Disk{Path: microvmtest.BusyboxDisk(t), Serial: "root", ReadOnly: true}
	pod := wire.Pod{
		ID: "one", Hostname: "one", UnixNano: time.Now().UnixNano(), Entropy: make([]byte, 64),
		MachineID: "00112233445566778899aabbccddeeff",
		Disks:     []string{"root"}, RestartPolicy: wire.RestartNever,
		Containers: []wire.Container{{
			Name: "main", Kind: wire.KindRegular, Disk: "root",
			Args: []string{"sh", "-c", "echo hello from $(hostname); exit 7"},
		}},
	}
	for _, template := range []bool{false, true} {
		if template {
			if err := q.Prepare(t.Context(), small); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		m, fromTemplate, err := q.Start(t.Context(),
			vmm.Spec{ID: fmt.Sprintf("one-%d", os.Getpid()), Dir: t.TempDir(), Shape: small, Disks: []vmm.Disk{disk}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Kill)
		t.Logf("template=%v started: %s", template, time.Since(began))
		c := session(t, m)
		t.Logf("template=%v session: %s", template, time.Since(began))
		line, status := runPod(t, c, pod)
		t.Logf("template=%v: %s", template, time.Since(began))
		if line != "hello from one" || status.Exit == nil || status.Exit.Code != 7 || fromTemplate != template {
			b, _ := json.Marshal(status)
			t.Errorf("template %v: logged %q, ended as %s", fromTemplate, line, b)
		}
		m.Kill()
	}
}
