package web

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodeless/nodeless/view/viewtest"
)

// idle is the engine of a cluster without pending pods.
type idle struct{ Engine }

func (idle) Waiting(context.Context) (any, error) {
	return map[string]any{"pools": []string{"general-purpose"}, "shapes": []any{}}, nil
}

func (idle) Offers(context.Context) (any, error) {
	offer := func(kind, of string, dollars float64) map[string]any {
		return map[string]any{"type": kind, "zone": "us-west-2a", "capacityType": of, "dollarsPerHour": dollars}
	}
	return map[string]any{"backoffKnown": true, "pools": []any{map[string]any{
		"pool": "general-purpose", "offered": 893, "allowed": 655, "available": 655,
		"cheapest": offer("c7a.medium", "on-demand", 0.0513), "dearest": offer("m7i.48xlarge", "on-demand", 9.6768),
	}}}, nil
}

// What the page looks like for small and large clusters: test/sizes.mjs. SCREENSHOTS is the folder for pictures.
func TestPicturesOfAllSizes(t *testing.T) {
	pictures := os.Getenv("SCREENSHOTS")
	if pictures == "" {
		t.Skip("made by make screenshots")
	}
	needBrowser(t)
	args := []string{"test/sizes.mjs", pictures}
	for _, nodes := range []int{0, 20, 500, 5000} {
		s := &stage{t: t, diary: &diary{}, engine: func(context.Context) (Engine, error) { return idle{}, nil }}
		s.model, s.pods = viewtest.Cluster(nodes, 30)
		if err := s.serve(); err != nil {
			t.Fatal(err)
		}
		defer func() { s.stop() }()
		args = append(args, fmt.Sprintf("%d=%s", nodes, Link(s.address, storyToken)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, "node", args...)
	script.Dir = filepath.Join("page")
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
