package awsapi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// kind defines how the Describe call for one kind of resource selects: by IDs, then by filters, then by page.
type kind[T any] struct {
	// key is the path of the field by which pages are ordered, or several paths separated by spaces.
	key string
	// usual is the number of resources on a page if the call does not say.
	usual int
	// filters lists the names of the filters, separated by white space. A filter's path is its name without hyphens,
	// unless a path follows an equals sign.
	filters string
	// ids are the input fields that name resources.
	ids []naming
}

// naming is a field of an input that names resources by the field at path. An unknown name is an error with the given
// code and a message made from format and the name.
type naming struct{ input, path, code, format string }

// answer returns the requested page of the resources that a call names and that pass its filters, and the token of
// the next page. in is the SDK's input.
func (k kind[T]) answer(in any, all []T) ([]T, *string, error) {
	found, err := k.choose(in, all)
	if err != nil {
		return nil, nil, err
	}
	return k.page(in, found)
}

// choose returns the resources that a call names and that pass its filters, never nil.
func (k kind[T]) choose(in any, all []T) ([]T, error) {
	input := reflect.ValueOf(in).Elem()
	for _, n := range k.ids {
		names := valuesAt(input.FieldByName(n.input), nil)
		if len(names) == 0 {
			continue
		}
		found, err := named(all, fieldPath(reflect.TypeFor[T](), n.path), names)
		if err != "" {
			return nil, failure(400, n.code, fmt.Sprintf(n.format, err))
		}
		all = found
	}
	filters, _ := input.FieldByName("Filters").Interface().([]types.Filter)
	found, err := k.filter(append([]T{}, all...), filters)
	if dry, ok := input.FieldByName("DryRun").Interface().(*bool); ok && err == nil {
		err = dryRun(dry)
	}
	return found, err
}

// named returns the resources with the given names, in that order, or a name that no resource has.
func named[T any](all []T, path [][]int, names []string) (found []T, unknown string) {
	byName := make(map[string]T, len(all))
	for _, v := range all {
		byName[strings.Join(valuesAt(reflect.ValueOf(v), path), "")] = v
	}
	for i, name := range names {
		v, ok := byName[name]
		switch {
		case !ok:
			return nil, name
		case !slices.Contains(names[:i], name):
			found = append(found, v)
		}
	}
	return found, ""
}

// page returns the requested page of found, and the token of the next page.
func (k kind[T]) page(in any, found []T) ([]T, *string, error) {
	input := reflect.ValueOf(in).Elem()
	size, _ := input.FieldByName("MaxResults").Interface().(*int32)
	token, _ := input.FieldByName("NextToken").Interface().(*string)
	var paths [][][]int
	for p := range strings.FieldsSeq(k.key) {
		paths = append(paths, fieldPath(reflect.TypeFor[T](), p))
	}
	return page(found, size, k.usual, token, func(v T) string {
		var key []string
		for _, p := range paths {
			key = append(key, valuesAt(reflect.ValueOf(v), p)...)
		}
		return strings.Join(key, "/")
	})
}

// optional returns nil for the empty string, so that the field is omitted.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
