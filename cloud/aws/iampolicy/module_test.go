package iampolicy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

const module = "../../../deploy/terraform"

// moduleFiles returns the blocks of all of the module's files.
func moduleFiles(t *testing.T) (blocks []*hclsyntax.Block) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(module, "*.tf"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, problems := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		blocks = append(blocks, file.Body.(*hclsyntax.Body).Blocks...)
	}
	return blocks
}

func TestTheModuleIsGenerated(t *testing.T) {
	want, err := Module()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(module, "iam.tf")); err != nil || string(got) != string(want) {
		t.Errorf("deploy/terraform/iam.tf differs: run make generate-terraform (%v)", err)
	}
}

// With the variables of a cluster, the module's documents equal those of "nodeless iam".
func TestTheModuleHasTheSameDocuments(t *testing.T) {
	for _, region := range []string{"us-west-2", "cn-north-1", "eusc-de-east-1"} {
		s := prod(t, func(s *Scope) { s.Region, s.NodeGroups = region, false })
		suffix := map[string]string{
			"us-west-2": "amazonaws.com", "cn-north-1": "amazonaws.com.cn", "eusc-de-east-1": "amazonaws.eu",
		}[region]
		object := func(pairs ...string) cty.Value {
			out := map[string]cty.Value{}
			for i := 0; i < len(pairs); i += 2 {
				out[pairs[i]] = cty.StringVal(pairs[i+1])
			}
			return cty.ObjectVal(map[string]cty.Value{"current": cty.ObjectVal(out)})
		}
		ctx := &hcl.EvalContext{
			Functions: map[string]function.Function{
				"jsonencode": stdlib.JSONEncodeFunc, "coalesce": stdlib.CoalesceFunc,
			},
			Variables: map[string]cty.Value{"data": cty.ObjectVal(map[string]cty.Value{
				"aws_region": object("region", region), "aws_caller_identity": object("account_id", s.Account),
				"aws_partition": object("partition", s.Partition, "dns_suffix", suffix),
			})},
		}
		blocks := moduleFiles(t)
		variables := map[string]cty.Value{"cluster_name": cty.StringVal(s.Cluster)}
		for _, b := range blocks {
			if d := b.Body.Attributes["default"]; b.Type == "variable" && d != nil {
				variables[b.Labels[0]], _ = d.Expr.Value(nil)
			}
		}
		ctx.Variables["var"] = cty.ObjectVal(variables)
		for _, b := range blocks {
			if b.Type == "locals" {
				locals := map[string]cty.Value{}
				for name, a := range b.Body.Attributes {
					value, problems := a.Expr.Value(ctx)
					if problems.HasErrors() {
						t.Fatal(problems)
					}
					locals[name] = value
				}
				ctx.Variables["local"] = cty.ObjectVal(locals)
			}
		}
		got := documentsOf(blocks, ctx)
		for name, want := range map[string]any{
			"aws_iam_role_policy.controller.policy":                    s.Controller(),
			"aws_iam_role_policy.node_groups.policy":                   document(s.nodeGroups()...),
			"aws_iam_role.controller.assume_role_policy":               s.ControllerTrust(),
			"aws_iam_role.node.assume_role_policy":                     s.NodeTrust(),
			"aws_sqs_queue_policy.interruption.policy":                 s.QueuePolicy(),
			"aws_cloudwatch_event_rule.SpotInterruption.event_pattern": s.Rules()[1].Pattern,
		} {
			if got[name] == "" || !reflect.DeepEqual(parsed(t, got[name]), plain(t, want)) {
				t.Errorf("%s: %s is %s", region, name, got[name])
			}
		}
		for name, want := range map[string]string{
			"aws_iam_role.controller.name": s.ControllerRole, "aws_iam_role.node.name": s.NodeRole,
			"aws_sqs_queue.interruption.name":                                     s.Queue,
			"aws_eks_pod_identity_association.controller.cluster_name":            s.Cluster,
			"aws_iam_role_policy_attachment.AmazonEKSWorkerNodePolicy.policy_arn": s.NodePolicies()[0],
		} {
			if got[name] != want {
				t.Errorf("%s: %s is %q, want %q", region, name, got[name], want)
			}
		}
	}
}

// The documented call sets only variables that exist, and every variable without a default.
func TestTheModuleIsCalledAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/how-do-i-run-it-on-my-cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, call, _ := strings.Cut(string(text), "```hcl\n")
	call, _, _ = strings.Cut(call, "```")
	file, problems := hclsyntax.ParseConfig([]byte(call), "call.tf", hcl.InitialPos)
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	given := file.Body.(*hclsyntax.Body).Blocks[0].Body.Attributes
	delete(given, "source")
	for _, b := range moduleFiles(t) {
		if b.Type != "variable" {
			continue
		}
		if given[b.Labels[0]] == nil && b.Body.Attributes["default"] == nil {
			t.Errorf("the call does not give %s", b.Labels[0])
		}
		delete(given, b.Labels[0])
	}
	for name := range given {
		t.Errorf("the module has no variable %s", name)
	}
}

// Everything that the module refers to exists.
func TestTheModuleRefersToWhatItHas(t *testing.T) {
	has := map[string]bool{}
	blocks := moduleFiles(t)
	for _, b := range blocks {
		switch b.Type {
		case "variable":
			has["var."+b.Labels[0]] = true
		case "data":
			has["data."+b.Labels[0]+"."+b.Labels[1]] = true
		case "resource":
			has[b.Labels[0]+"."+b.Labels[1]] = true
		case "locals":
			for name := range b.Body.Attributes {
				has["local."+name] = true
			}
		}
	}
	checked := 0
	_ = hclsyntax.VisitAll(&hclsyntax.Body{Blocks: blocks}, func(n hclsyntax.Node) hcl.Diagnostics {
		e, ok := n.(*hclsyntax.ScopeTraversalExpr)
		if !ok {
			return nil
		}
		name := e.Traversal.RootName()
		for _, step := range e.Traversal[1:] {
			if a, ok := step.(hcl.TraverseAttr); ok && !has[name] {
				name += "." + a.Name
			}
		}
		checked++
		if !has[name] && name != "string" && name != "bool" { // types of variables
			t.Errorf("%s: there is no %s", e.SrcRange, name)
		}
		return nil
	})
	if checked < 40 {
		t.Errorf("%d references were checked", checked)
	}
}
