package awsapi

import (
	"encoding/xml"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Describe call of EC2 answers with a list of resources. Its parameters choose among them: IDs, then filters, then a
// page. The shape of a resource says what filters match: a field's tag
//
//	filter:"subnet-id"    is the name of the filter, or several separated by commas
//	filter:"placement."   is the prefix of the names inside a nested structure or list; "." means no prefix
//	filter:"tag"          marks the tags: filters tag:KEY, tag-key and tag-value

// listing is the answer of a Describe call: a list in an element, and the token of the next page.
type listing[T any] struct {
	element string
	items   []T
	next    string
}

// MarshalXML writes the list as EC2 does.
func (l listing[T]) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	element := func(name string) xml.StartElement { return xml.StartElement{Name: xml.Name{Local: name}} }
	if err := e.EncodeElement(set[T]{Items: l.items}, element(l.element)); err != nil {
		return err
	}
	if l.next != "" {
		if err := e.EncodeElement(l.next, element("nextToken")); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}

// naming is a parameter that names resources. A name that no resource has is an error with the code of its kind and a
// message made from format and the name.
type naming[T any] struct {
	parameter, code, format string
	name                    func(T) string
}

// described answers a Describe call from all resources. key orders the pages, whose size is limit at most.
func described[T any](
	c *call, element string, all []T, limit int, key func(T) string, by ...naming[T],
) (any, error) {
	found, err := chosenFrom(c, all, by...)
	if err != nil {
		return nil, err
	}
	return paged(c, element, found, limit, key)
}

// paged answers with the page that the call asks for.
func paged[T any](c *call, element string, found []T, limit int, key func(T) string) (any, error) {
	size, token := c.form.integer("MaxResults"), c.form.str("NextToken")
	if err := c.form.fail(); err != nil {
		return nil, err
	}
	found, next, err := page(found, size, limit, token, key)
	return listing[T]{element, found, next}, err
}

// chosenFrom returns the resources that the call names and filters.
func chosenFrom[T any](c *call, all []T, by ...naming[T]) ([]T, error) {
	var err error
	for _, n := range by {
		if all, err = n.choose(all, c.form.strs(n.parameter)); err != nil {
			return nil, err
		}
	}
	return filtered(all, c.filters())
}

// choose keeps the resources that names name; no names keep all.
func (n naming[T]) choose(list []T, names []string) ([]T, error) {
	if len(names) == 0 {
		return list, nil
	}
	byName := make(map[string]T, len(list))
	for _, v := range list {
		byName[n.name(v)] = v
	}
	var out []T
	seen := map[string]bool{}
	for _, name := range names {
		v, ok := byName[name]
		if !ok {
			return nil, failure(400, n.code, fmt.Sprintf(n.format, name))
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, v)
		}
	}
	return out, nil
}

// filtered keeps the resources that match every filter. A filter that the resource kind does not have is an error, as
// on EC2, so that a misspelt one does not go unnoticed.
func filtered[T any](list []T, filters []filter) ([]T, error) {
	if len(filters) == 0 {
		return list, nil
	}
	var zero T
	known := attributesOf(zero)
	for _, f := range filters {
		if _, ok := known[f.name]; !ok && !strings.HasPrefix(f.name, "tag:") {
			return nil, failure(400, "InvalidParameterValue", fmt.Sprintf("The filter '%s' is invalid", f.name))
		}
	}
	var out []T
	for _, v := range list {
		a := attributesOf(v)
		if !slices.ContainsFunc(filters, func(f filter) bool { return !f.matches(a[f.name]) }) {
			out = append(out, v)
		}
	}
	return out, nil
}

// attributes holds the values of a resource's filterable attributes by name. A name without values is a valid filter
// that the resource does not match.
type attributes map[string][]string

func attributesOf(v any) attributes {
	a := attributes{}
	a.read("", reflect.ValueOf(v), true)
	if t, ok := v.(resourceTagXML); ok {
		a["tag:"+t.Key] = []string{t.Value}
	}
	return a
}

// read adds the tagged fields of a structure. Without present it adds their names alone.
func (a attributes) read(prefix string, v reflect.Value, present bool) {
	for i := range v.NumField() {
		tag, value := v.Type().Field(i).Tag.Get("filter"), v.Field(i)
		inner, nested := strings.CutSuffix(tag, ".")
		switch {
		case tag == "":
		case tag == "tag":
			a.addTags(value.Interface().(set[tagXML]))
		case nested && inner == "":
			a.nest(prefix, value, present)
		case nested:
			a.nest(prefix+tag, value, present)
		default:
			for name := range strings.SplitSeq(tag, ",") {
				a[prefix+name] = append(a[prefix+name], texts(value, present)...)
			}
		}
	}
}

// nest adds a structure, a pointer to one, or a set of them.
func (a attributes) nest(prefix string, v reflect.Value, present bool) {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		a.read(prefix, reflect.Zero(v.Type().Elem()), false)
	case v.Kind() == reflect.Pointer:
		a.read(prefix, v.Elem(), present)
	case v.FieldByName("Items").IsValid():
		items := v.FieldByName("Items")
		a.read(prefix, reflect.Zero(items.Type().Elem()), false)
		for i := range items.Len() {
			a.read(prefix, items.Index(i), present)
		}
	default:
		a.read(prefix, v, present)
	}
}

func (a attributes) addTags(tags set[tagXML]) {
	a["tag-key"], a["tag-value"] = nil, nil
	for _, t := range tags.Items {
		a["tag:"+t.Key] = []string{t.Value}
		a["tag-key"], a["tag-value"] = append(a["tag-key"], t.Key), append(a["tag-value"], t.Value)
	}
}

// texts returns a field's values as filters compare them.
func texts(v reflect.Value, present bool) []string {
	if !present {
		return nil
	}
	switch x := v.Interface().(type) {
	case set[string]:
		return x.Items
	case float64:
		return []string{strconv.FormatFloat(x, 'f', -1, 64)}
	}
	return []string{fmt.Sprint(v.Interface())}
}
