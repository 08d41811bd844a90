package whatif

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/internal/kit/manifest"
)

// merged returns an object as `kubectl apply` would leave it, with the API server's defaults: it removes what the
// last applied manifest had and this one lacks, and keeps what neither mentions. It also returns the changed fields
// of spec and annotations.
func merged(before, change client.Object, item manifest.Item) (client.Object, []string, error) {
	now, err := plain(change)
	if err != nil {
		return nil, nil, err
	}
	said, err := decoded(item.JSON)
	if err != nil {
		return nil, nil, fmt.Errorf("line %d: %w", item.Line, err)
	}
	was := map[string]any{}
	if before != nil {
		if was, err = plain(before); err != nil {
			return nil, nil, err
		}
		last := map[string]any{}
		if text := before.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; text != "" {
			last, _ = decoded([]byte(text)) // an unreadable manifest removes nothing
		}
		now = overlay(was, said, last)
	} else {
		now = overlay(now, said, nil)
	}
	if err := complete(now, item); err != nil {
		return nil, nil, err
	}
	out := reflect.New(reflect.TypeOf(change).Elem()).Interface().(client.Object)
	raw, err := json.Marshal(now)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("line %d: %w", item.Line, err)
	}
	out.SetNamespace(change.GetNamespace())
	out.SetResourceVersion("")
	out.SetGeneration(0)
	if before == nil {
		out.SetUID(uidOf(out.GetName()))
		return out, nil, nil
	}
	if ds, ok := out.(*appsv1.DaemonSet); ok {
		if fingerprint(ds) != fingerprint(before.(*appsv1.DaemonSet)) {
			delete(ds.Annotations, appsv1.DeprecatedTemplateGeneration) // the next one: no pod is made from it yet
		}
		return out, differences("spec", reread(was["spec"]), reread(now["spec"])), nil
	}
	fields := differences("spec", was["spec"], now["spec"])
	return out, append(fields, differences("metadata", metaOf(was), metaOf(now))...), nil
}

// reread returns a value as JSON decodes it.
func reread(v any) any {
	raw, _ := json.Marshal(v) // cannot fail: it came from JSON
	var out any
	_ = json.Unmarshal(raw, &out)
	return out
}

// metaOf returns the annotations that people write.
func metaOf(o map[string]any) any {
	meta, _ := o["metadata"].(map[string]any)
	notes, _ := meta["annotations"].(map[string]any)
	notes = maps.Clone(notes)
	maps.DeleteFunc(notes, func(key string, _ any) bool {
		return key == corev1.LastAppliedConfigAnnotation || strings.Contains(key, "-hash")
	})
	out := map[string]any{}
	if len(notes) > 0 {
		out["annotations"] = any(notes)
	}
	return out
}

func plain(o client.Object) (map[string]any, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return decoded(raw)
}

// overlay applies said to was and deletes the keys that only last has.
func overlay(was, said, last map[string]any) map[string]any {
	out := maps.Clone(was)
	for key := range last {
		if _, still := said[key]; !still {
			delete(out, key)
		}
	}
	for key, value := range said {
		inner, ok := value.(map[string]any)
		if !ok {
			out[key] = value
			continue
		}
		old, _ := out[key].(map[string]any)
		before, _ := last[key].(map[string]any)
		if old == nil {
			old = map[string]any{}
		}
		out[key] = overlay(old, inner, before)
	}
	return out
}

// complete fills in the defaults of a custom resource and validates it. It ignores other kinds.
func complete(o map[string]any, item manifest.Item) error {
	n, err := item.Name()
	if err != nil {
		return err
	}
	group, version, _ := strings.Cut(n.APIVersion, "/")
	for _, crd := range crds.All() {
		if crd.Spec.Group != group || crd.Spec.Names.Kind != n.Kind {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Name == version && v.Schema != nil {
				return against(v.Schema.OpenAPIV3Schema, o, n, item)
			}
		}
	}
	return nil
}

func against(props *apiextensionsv1.JSONSchemaProps, o map[string]any, n manifest.Named, item manifest.Item) error {
	var in apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &in, nil); err != nil {
		return err
	}
	structural, err := schema.NewStructural(&in)
	if err != nil {
		return err
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(o, structural) // Go encodes a missing list as null
	defaulting.Default(o, structural)
	validator, _, err := validation.NewSchemaValidator(&in)
	if err != nil {
		return err
	}
	if wrong := validation.ValidateCustomResource(nil, o, validator); len(wrong) > 0 {
		return fmt.Errorf("line %d: %s: %s; correct the field", item.LineOf(wrong[0].Field), n, wrong[0].Error())
	}
	return nil
}

// differences returns the paths at which two values differ.
func differences(path string, a, b any) []string {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		if reflect.DeepEqual(a, b) {
			return nil
		}
		return []string{path}
	}
	var out []string
	keys := slices.Collect(maps.Keys(x))
	for key := range y {
		if _, there := x[key]; !there {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		out = append(out, differences(path+"."+key, x[key], y[key])...)
	}
	return out
}
