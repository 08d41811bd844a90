package plane_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/plane"
)

func TestADamagedDataDirectoryIsNamedWithTheRemedy(t *testing.T) {
	skipShort(t)
	used := t.TempDir()
	stop(t, start(t, plane.Options{DataDir: used}))

	log, db := "etcd/member/wal/*.wal", "etcd/member/snap/db"
	for name, c := range map[string]struct {
		says   string
		damage func(t *testing.T, dir string)
	}{
		"log overwritten in the middle": {"crc mismatch", func(t *testing.T, dir string) {
			path := only(t, dir, log)
			overwrite(t, path, recordAfter(t, path, 20_000)+100, garbage(4096))
		}},
		// the length read there exceeds the file
		"log overwritten from a record on": {"but the database holds entry", func(t *testing.T, dir string) {
			path := only(t, dir, log)
			overwrite(t, path, recordAfter(t, path, 20_000), garbage(4096))
		}},
		"log overwritten at the start": {"no valid snapshot entry", func(t *testing.T, dir string) {
			overwrite(t, only(t, dir, log), 0, garbage(512))
		}},
		"log emptied": {"no valid snapshot entry", func(t *testing.T, dir string) { truncate(t, only(t, dir, log), 0) }},
		"log gone":    {"no write-ahead log", func(t *testing.T, dir string) { remove(t, only(t, dir, log)) }},
		"database overwritten": {"invalid database", func(t *testing.T, dir string) {
			overwrite(t, only(t, dir, db), 0, garbage(64<<10))
		}},
		"database cut short": {"database: ", func(t *testing.T, dir string) { truncate(t, only(t, dir, db), 40<<10) }},
		"database emptied":   {"database: ", func(t *testing.T, dir string) { truncate(t, only(t, dir, db), 0) }},
		"database gone":      {"no such file", func(t *testing.T, dir string) { remove(t, only(t, dir, db)) }},
		"member gone": {"no write-ahead log", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "etcd/member"))
		}},
		"an object's bytes changed": {"stored object", func(t *testing.T, dir string) {
			path := only(t, dir, db)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// every copy of it, since only etcd knows which one is in use
			for at, key := 0, []byte("/registry/namespaces/kube-system"); ; {
				i := bytes.Index(raw[at:], key)
				if i < 0 {
					break
				}
				at += i + len(key)
				overwrite(t, path, int64(at)+40, garbage(32))
			}
		}},
		"database is a text": {"database: ", func(t *testing.T, dir string) { rewrite(t, only(t, dir, db), "hello") }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "etcd"), os.DirFS(filepath.Join(used, "etcd"))); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir)
			p, err := plane.Start(context.Background(), plane.Options{DataDir: dir})
			if err == nil {
				stop(t, p)
				t.Fatal("started as if nothing had happened")
			}
			t.Log(err)
			var corrupt *plane.CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), dir) ||
				!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "nodeless down --wipe") {
				t.Errorf("got %v; want %q, the directory and the remedy", err, c.says)
			}
		})
	}
}

func TestAStartThatWasKilledBeforeItWasReadyIsNoDamage(t *testing.T) {
	skipShort(t)
	dir := t.TempDir()
	half := filepath.Join(dir, "etcd", "member", "snap")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(half, "db"), "half a page")
	rewrite(t, filepath.Join(dir, "plane.json"), `{"port":`)
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "pki", "ca.crt"), "-----BEGIN CERT")
	stop(t, start(t, plane.Options{DataDir: dir}))
}

func TestATakenPort(t *testing.T) {
	skipShort(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	dir := t.TempDir()

	t.Run("that the user asked for is named with its holder", func(t *testing.T) {
		_, err := plane.Start(context.Background(), plane.Options{DataDir: dir, Port: port})
		var portErr *plane.PortError
		if !errors.As(err, &portErr) || !strings.Contains(err.Error(), strconv.Itoa(port)) ||
			!strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("that was chosen by itself gives way to another", func(t *testing.T) {
		rewrite(t, filepath.Join(dir, "plane.json"), `{"port":`+strconv.Itoa(port)+`}`)
		p := start(t, plane.Options{DataDir: dir})
		defer stop(t, p)
		raw, err := os.ReadFile(p.Kubeconfig())
		if err != nil || !bytes.Contains(raw, []byte(p.APIServerURL())) ||
			strings.HasSuffix(p.APIServerURL(), strconv.Itoa(port)) {
			t.Errorf("at %s, kubeconfig:\n%s (%v)", p.APIServerURL(), raw, err)
		}
	})
}

func TestBadOptionsAreNamed(t *testing.T) {
	dir := t.TempDir()
	notADirectory := filepath.Join(dir, "file")
	rewrite(t, notADirectory, "")
	for want, o := range map[string]plane.Options{
		"no data directory": {},
		"service CIDR":      {DataDir: dir, ServiceCIDR: "10.0.0.0"},
		"/28":               {DataDir: dir, ServiceCIDR: "10.0.0.0/30"},
		"port 70000":        {DataDir: dir, Port: 70000},
		"client QPS -1":     {DataDir: dir, ClientQPS: -1},
		notADirectory:       {DataDir: notADirectory},
	} {
		if p, err := plane.Start(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			if err == nil {
				stop(t, p)
			}
			t.Errorf("%+v: got %v, want it to name %q", o, err, want)
		}
	}
}

func garbage(n int) []byte { return bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, n/4) }

// recordAfter returns where the first record of a write-ahead log begins after an offset. A record's length precedes
// it: 7 bytes, and one for padding, whose highest bit says that there is any.
func recordAfter(t *testing.T, path string, offset int64) (at int64) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at <= offset {
		length := int64(binary.LittleEndian.Uint64(raw[at:]))
		if length == 0 {
			t.Fatalf("%s ends at byte %d", path, at)
		}
		at += 8 + length&(1<<56-1)
		if length < 0 {
			at += length >> 56 & 7
		}
	}
	return at
}

// only returns the single file that matches a pattern.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v %v", pattern, files, err)
	}
	return files[0]
}

func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(with, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHealthyObjectsOfAllKindsPassTheCheck(t *testing.T) {
	skipShort(t)
	p := start(t, plane.Options{DataDir: t.TempDir()})
	defer stop(t, p)
	if err := crds.Install(context.Background(), p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	deploy(t, client(t, p), "default", 2)
	custom, err := dynamic.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "stored"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"requirements": []any{},
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "any"},
		}}},
	}}
	pools := custom.Resource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"})
	if _, err := pools.Create(context.Background(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.CheckObjects(context.Background()); err != nil {
		t.Error(err)
	}
}
