package awsapi

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/region"
)

// filter returns the resources that match every filter. A filter that the kind does not have is an error, as on EC2,
// so that a misspelt one is noticed.
func (k kind[T]) filter(list []T, filters []types.Filter) ([]T, error) {
	match, err := k.matcher(filters)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(v T) bool { return !match(v) }), nil
}

// matcher returns a function that reports whether a resource matches every filter.
func (k kind[T]) matcher(filters []types.Filter) (func(T) bool, error) {
	values := make([]func(reflect.Value) []string, len(filters))
	for i, f := range filters {
		if values[i] = k.valuesOf(aws.ToString(f.Name)); values[i] == nil {
			return nil, failure(400, "InvalidParameterValue",
				fmt.Sprintf("The filter '%s' is invalid", aws.ToString(f.Name)))
		}
	}
	return func(v T) bool {
		for i, f := range filters {
			if !matches(f.Values, values[i](reflect.ValueOf(v))) {
				return false
			}
		}
		return true
	}, nil
}

// valuesOf returns a function that reads the values that a filter compares from a resource; nil if the kind has no
// such filter.
func (k kind[T]) valuesOf(filter string) func(reflect.Value) []string {
	if key, ok := strings.CutPrefix(filter, "tag:"); ok {
		return func(v reflect.Value) []string { return tagValues(v, key) }
	}
	for word := range strings.FieldsSeq(k.filters) {
		name, path, ok := strings.Cut(word, "=")
		if !ok {
			path = strings.ReplaceAll(name, "-", "")
		}
		if name == filter {
			fields := fieldPath(reflect.TypeFor[T](), path)
			return func(v reflect.Value) []string { return valuesAt(v, fields) }
		}
	}
	return nil
}

// tagValues returns the value of a resource's tag, if it has it. A TagDescription is its own tag.
func tagValues(v reflect.Value, key string) []string {
	var tags []types.Tag
	switch x := v.Interface().(type) {
	case types.TagDescription:
		tags = []types.Tag{{Key: x.Key, Value: x.Value}}
	case types.NetworkInterface:
		tags = x.TagSet
	default:
		if f := v.FieldByName("Tags"); f.IsValid() {
			tags = f.Interface().([]types.Tag)
		}
	}
	for _, t := range tags {
		if *t.Key == key {
			return []string{*t.Value}
		}
	}
	return nil
}

// fieldPath resolves a path such as Placement.AvailabilityZone through pointers and lists to field indexes. Names are
// case-insensitive and may be the singular of a field's name.
func fieldPath(t reflect.Type, path string) [][]int {
	var out [][]int
	for name := range strings.SplitSeq(path, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		var field reflect.StructField
		for _, ending := range []string{"", "s", "es"} {
			if f, ok := t.FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, name+ending) }); ok {
				field = f
				break
			}
		}
		if field.Index == nil {
			panic(fmt.Sprintf("%s has no field %s of path %s", t, name, path))
		}
		out, t = append(out, field.Index), field.Type
	}
	return out
}

// valuesAt returns the values at the end of a path from v, those of all its fields if a structure is there; none where
// a pointer on the way is nil.
func valuesAt(v reflect.Value, path [][]int) []string {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer:
		return valuesAt(v.Elem(), path)
	case v.Kind() == reflect.Slice:
		var out []string
		for _, x := range v.Seq2() {
			out = append(out, valuesAt(x, path)...)
		}
		return out
	case len(path) > 0:
		return valuesAt(v.FieldByIndex(path[0]), path[1:])
	case isStruct(v):
		var out []string
		for _, x := range outputFields(v) {
			out = append(out, valuesAt(x, nil)...)
		}
		return out
	}
	return []string{scalar(v)}
}

// matches reports whether one of the values matches one of the patterns.
func matches(patterns, values []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return region.Like(p, v) })
	})
}

// page returns a page of list, sorted by key, and the token of the next one. A token holds the last key of its page,
// so that resources created or deleted between pages cause neither repeated nor missing entries. limits has checked a
// size that is given; without one, a page has usual entries.
func page[T any](list []T, given *int32, usual int, token *string, key func(T) string) ([]T, *string, error) {
	type entry struct {
		key   string
		value T
	}
	entries := make([]entry, len(list))
	for i, v := range list {
		entries[i] = entry{key(v), v}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	if token != nil && *token != "" {
		after, err := untoken(*token)
		if err != nil {
			return nil, nil, err
		}
		i, _ := slices.BinarySearchFunc(entries, after+"\x00", func(e entry, k string) int { return cmp.Compare(e.key, k) })
		entries = entries[i:]
	}
	var next *string
	if size := sizeOf(given, usual); len(entries) > size {
		entries, next = entries[:size], tokenAfter(entries[size-1].key)
	}
	out := make([]T, len(entries))
	for i, e := range entries {
		out[i] = e.value
	}
	return out, next, nil
}

// sizeOf returns the size of a page.
func sizeOf(given *int32, usual int) int {
	if given == nil {
		return usual
	}
	return int(*given)
}

// tokenMark is the prefix of every token.
const tokenMark = "after:"

func tokenAfter(key string) *string {
	return new(base64.RawURLEncoding.EncodeToString([]byte(tokenMark + key)))
}

func untoken(token string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	after, ok := strings.CutPrefix(string(b), tokenMark)
	if err != nil || !ok {
		return "", invalidPageToken()
	}
	return after, nil
}

func invalidPageToken() error {
	return failure(400, "InvalidNextToken",
		"Unable to parse pagination token: use the nextToken of the previous answer unchanged")
}
