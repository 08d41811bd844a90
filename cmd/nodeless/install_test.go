package main

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// printed returns the objects that a command prints, as kubectl would read them.
func printed(t *testing.T, args ...string) []*unstructured.Unstructured {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(&out, 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
			t.Errorf("%v: an object without kind or name: %v", args, o.Object)
		}
		all = append(all, o)
	}
}

func TestCRDsArePrintedForKubectl(t *testing.T) {
	var kinds []string
	for _, o := range printed(t, "crds") {
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		kinds = append(kinds, kind)
		if o.GetKind() != "CustomResourceDefinition" {
			t.Errorf("%s is a %s", o.GetName(), o.GetKind())
		}
	}
	slices.Sort(kinds)
	if want := []string{
		"CapacityBuffer", "DecisionLog", "EC2NodeClass", "FargateProfile", "MicroVM", "MicroVMHost",
		"NodeClaim", "NodeGroup", "NodeOverlay", "NodePool",
	}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
}

func TestRolesArePrintedForKubectl(t *testing.T) {
	var kinds []string
	for _, o := range printed(t, "rbac", "--namespace", "team", "--leader-election-name", "mine") {
		kinds = append(kinds, o.GetKind())
		cluster := o.GetKind() == "ClusterRole" || o.GetKind() == "ClusterRoleBinding"
		namespaced := o.GetNamespace() == "team" || o.GetNamespace() == "kube-node-lease"
		if cluster != (o.GetNamespace() == "") || !cluster && !namespaced {
			t.Errorf("%s is in namespace %q", o.GetKind(), o.GetNamespace())
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			if s.(map[string]any)["namespace"] != "team" {
				t.Errorf("%s binds %v", o.GetKind(), s)
			}
		}
	}
	if want := []string{
		"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Role",
		"RoleBinding",
	}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v: a role comes before what binds it", kinds, want)
	}
}

// Each reader has a binding of its own: what is printed for one does not replace what was applied for another.
func TestTheReadersRolesAreBoundSeparately(t *testing.T) {
	bindings := map[string]any{} // subjects by name
	for _, who := range [][]string{
		{"--user", "jane@example.com"},
		{"--user", "john@example.com"},
		{"--service-account", "a/b-c"},
		{"--service-account", "a-b/c"},
		{"--user", "jane@example.com", "--service-account", "a/b-c"},
	} {
		objects := printed(t, append([]string{"rbac", "--view"}, who...)...)
		if role := objects[0]; role.GetKind() != "ClusterRole" || role.GetName() != "nodeless-view" ||
			len(objects) != 1+len(who)/2 {
			t.Fatalf("%v: %v", who, objects)
		}
		for _, o := range objects[1:] {
			to, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			subjects := o.Object["subjects"]
			if before := bindings[o.GetName()]; before != nil && !reflect.DeepEqual(before, subjects) {
				t.Errorf("%v: %s bound %v", who, o.GetName(), before)
			}
			if o.GetKind() != "ClusterRoleBinding" || to != "nodeless-view" {
				t.Errorf("%v: %v", who, o.Object)
			}
			bindings[o.GetName()] = subjects
		}
	}
	if len(bindings) != 4 {
		t.Errorf("bindings of 4 readers: %v", bindings)
	}
}

func TestReadersAreNamedWithTheirRoleAlone(t *testing.T) {
	for _, flag := range []string{"--user", "--service-account"} {
		root := newRoot()
		root.SetOut(io.Discard)
		root.SetArgs([]string{"rbac", flag, "a/b"})
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "--view") {
			t.Errorf("%s without --view: %v", flag, err)
		}
	}
}
