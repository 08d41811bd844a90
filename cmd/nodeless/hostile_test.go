package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

// hostileDump has names that clear the screen, reverse the writing direction and are HTML. No API server accepts
// them, but a file may contain anything.
const hostileDump = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool\u001b[2J\u202e<script>alert(1)</script>"}, "spec": {"template": {"spec": {
 "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []}}}},
{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}]}},
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n\u001b[31m\u202e", "labels": {"topology.kubernetes.io/zone": "eu-west-1a", "a\u0007": "\u009b0m"}}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p\u001b]0;owned\u0007\u202e<b>", "namespace": "shop\u001b[1m"}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q\u202e", "namespace": "shop"}, "spec": {"nodeSelector": {"x\u001b": "y\u202e"}, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
{"apiVersion": "example.com/v1", "kind": "Wid\u001b[2Jget", "metadata": {"name": "w"}}]}
`

// Names in a dump are only ever printed as text.
func TestNamesInADumpAreTextOnATerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(file, []byte(hostileDump), 0o600); err != nil {
		t.Fatal(err)
	}
	scale := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(scale,
		[]byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"web\\e[2J\", namespace: shop}\nspec: {replicas: 3, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"simulate", file},
		{"simulate", file, "-o", "wide"},
		{"simulate", file, "-o", "json"},
		{"simulate", file, "-o", "yaml"},
		{"simulate", file, "--compare"},
		{"plan", "-f", scale, "--from", file},
		{"plan", "-f", scale, "--from", file, "-o", "wide"},
		{"plan", "-f", scale, "--from", file, "-o", "json"},
		{"plan", "--delete", "nodepool/pool\x1b[2J\u202e<script>alert(1)</script>", "--from", file},
		{"why", "node/n\x1b[31m\u202e", "--from", file},
		{"why", "pod/q\u202e", "-n", "shop", "--from", file},
		{"why", "pod/none\x1b", "--from", file},
	} {
		root, out := newRoot(), &bytes.Buffer{}
		root.SetArgs(append(args, "--region", "eu-west-1"))
		root.SetOut(out)
		root.SetErr(out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			out.WriteString(program.Printable("nodeless", root, err))
		}
		if text := out.String(); strings.ContainsAny(text, "\x1b\x07\u009b\u202e") || len(text) < 20 {
			t.Errorf("%q says\n%q", args, text)
		}
	}
	if said := program.Printable("nodeless", newRoot(),
		errors.New("line 1: \x1b[2J\u202e")); said != `line 1: \x1b[2J\u202e` {
		t.Errorf("%q", said)
	}
}
