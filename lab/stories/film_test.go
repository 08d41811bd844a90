package stories

import (
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/lab/apng"
)

// filmed is what the film shows: services that stay, and a batch whose end leaves their nodes half empty.
const filmed = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: shop}
spec:
  disruption: {consolidateAfter: 3s, budgets: [{nodes: "100%"}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
      - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4", "8", "16"]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
`

func filmedDeployment(name, cpu string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: shop}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {karpenter.sh/nodepool: shop}
      containers: [{name: c, image: pause, resources: {requests: {cpu: %[2]s, memory: 512Mi}}}]
---
`, name, cpu, replicas)
}

// The README's animation: a consolidation on the page of a real cluster.
func TestTheReadmesFilm(t *testing.T) {
	pictures := os.Getenv("SCREENSHOTS")
	if pictures == "" {
		t.Skip("made by make screenshots")
	}
	needBrowser(t)
	c := up(t, "--boot-time", "8s", "--page", "127.0.0.1:0")
	c.apply(filmed + filmedDeployment("batch", "14", 6))
	c.wantPods(2*time.Minute, "shop", "batch", 6)
	c.apply(filmedDeployment("web", "430m", 16)) // beside the batch
	c.wantPods(2*time.Minute, "shop", "web", 16)
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	end := fmt.Sprintf("%q kubectl -n shop delete deployment batch", absolute(t, binary))
	script := exec.CommandContext(ctx, "node", "test/film.mjs", c.Session.Page, folder, end)
	script.Dir = filepath.Join(root, "view", "web", "page")
	script.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	if said, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	frames := developed(t, folder)
	path := filepath.Join(pictures, "consolidation.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := apng.Encode(f, frames); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	const most = 700 << 10
	if info, err := os.Stat(path); err != nil || info.Size() > most {
		t.Errorf("%v: the film has %d bytes, want at most %d", err, info.Size(), most)
	}
}

// developed returns the pictures of a folder as frames. Long pauses are shortened, and pictures that were shown too
// briefly to be seen are dropped.
func developed(t *testing.T, folder string) (out []apng.Frame) {
	t.Helper()
	const shortest, longest, end = 120 * time.Millisecond, 1200 * time.Millisecond, 4 * time.Second
	names, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil || len(names) < 2 {
		t.Fatalf("%v: there are %d pictures", err, len(names))
	}
	slices.Sort(names)
	at := func(name string) time.Time {
		ms, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), ".png"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(ms)
	}
	for i, name := range names {
		shown := end
		if i+1 < len(names) {
			if shown = at(names[i+1]).Sub(at(name)); shown < shortest && i > 0 {
				continue
			}
		}
		out = append(out, apng.Frame{Image: pictureOf(t, name), Shown: min(shown, longest)})
	}
	out[len(out)-1].Shown = end
	return out
}

func pictureOf(t *testing.T, name string) *image.RGBA {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	out := image.NewRGBA(m.Bounds())
	draw.Draw(out, out.Rect, m, m.Bounds().Min, draw.Src)
	return out
}
