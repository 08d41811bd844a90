package fromaws

import (
	"reflect"
	"strings"
	"time"
)

// asIs and lowerFirst return field names as the CLI prints them: the SDK's own, or those of EKS.
func asIs(name string) string       { return name }
func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// printed returns a structure of the SDK as the CLI prints it: without unset fields, times as text.
func printed(v any, name func(string) string) any {
	return value(reflect.ValueOf(v), name)
}

// value returns nil for what is unset.
func value(v reflect.Value, name func(string) string) any {
	if at, ok := v.Interface().(time.Time); ok {
		return at.UTC().Format(time.RFC3339)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return value(v.Elem(), name)
	case reflect.Struct:
		return object(v, name)
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			out = append(out, value(v.Index(i), name))
		}
		return out
	case reflect.Map:
		if v.IsNil() {
			return nil
		}
		out := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			out[it.Key().String()] = value(it.Value(), name)
		}
		return out
	case reflect.String:
		if v.Type() != reflect.TypeFor[string]() && v.Len() == 0 {
			return nil // an enumeration
		}
		return v.String()
	}
	return v.Interface()
}

func object(v reflect.Value, name func(string) string) map[string]any {
	out := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "ResultMetadata" {
			continue
		}
		if x := value(v.Field(i), name); x != nil {
			out[name(f.Name)] = x
		}
	}
	return out
}
