package apisim

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// filter selects objects of a resource.
type filter struct {
	namespace string // "" = all
	labels    labels.Selector
	fields    fields.Selector
}

func newFilter(namespace string, q url.Values) (filter, error) {
	f := filter{namespace: namespace}
	var err error
	if f.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return f, badRequest("labelSelector: %v", err)
	}
	if f.fields, err = fields.ParseSelector(q.Get("fieldSelector")); err != nil {
		return f, badRequest("fieldSelector: %v", err)
	}
	return f, nil
}

func (f filter) matches(o *unstructured.Unstructured) bool {
	return (f.namespace == "" || o.GetNamespace() == f.namespace) && f.labels.Matches(labels.Set(o.GetLabels())) &&
		f.fields.Matches(fieldsOf{o})
}

// fieldsOf looks up a field by its path. The real server supports a few fields of each kind and rejects others.
type fieldsOf struct{ o *unstructured.Unstructured }

func (f fieldsOf) Has(string) bool { return true }

func (f fieldsOf) Get(path string) string {
	value, _, err := unstructured.NestedString(f.o.Object, strings.Split(path, ".")...)
	if err != nil {
		return ""
	}
	return value
}
