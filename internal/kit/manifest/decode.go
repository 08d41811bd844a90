package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrUnknownKind means that an object's kind is not supported here.
var ErrUnknownKind = errors.New("a kind that is not understood here")

// Named is an object's identity as stated in its text.
type Named struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// String returns kind and name, such as "Pod shop/web-0".
func (n Named) String() string {
	name := n.Metadata.Name
	if n.Metadata.Namespace != "" {
		name = n.Metadata.Namespace + "/" + name
	}
	return strings.TrimSpace(n.Kind + " " + name)
}

// Name returns the object's identity. It fails if apiVersion or kind is missing.
func (i Item) Name() (Named, error) {
	var n Named
	if err := json.Unmarshal(i.JSON, &n); err != nil {
		return n, fmt.Errorf("line %d: %w", i.Line, err)
	}
	if n.APIVersion == "" || n.Kind == "" {
		return n, fmt.Errorf("line %d: an object without apiVersion or kind; both have to stand there, as kubectl get "+
			"-o yaml writes them", i.Line)
	}
	return n, nil
}

// Object decodes the object into its Go type and ignores unknown fields. The error is ErrUnknownKind, or says what is
// wrong and where.
func (i Item) Object() (client.Object, error) {
	n, err := i.Name()
	if err != nil {
		return nil, err
	}
	made, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(n.APIVersion, n.Kind))
	o, ok := made.(client.Object)
	if err != nil || !ok {
		return nil, fmt.Errorf("line %d: %s (%s): %w", i.Line, n, n.APIVersion, ErrUnknownKind)
	}
	if err := json.Unmarshal(i.JSON, o); err != nil {
		return nil, fmt.Errorf("line %d: %s: %w", i.Line, n, err)
	}
	return o, nil
}

// strict rejects fields that are unknown or that occur twice.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// Exactly is Object with an error for unknown fields, which are usually misspelled.
func (i Item) Exactly() (client.Object, error) {
	o, err := i.Object()
	if err != nil {
		return nil, err
	}
	n, _ := i.Name()
	text := i.JSON
	if _, _, err = strict.Decode(text, nil, nil); err == nil {
		return o, nil
	}
	if unknown, ok := runtime.AsStrictDecodingError(err); ok && len(unknown.Errors()) > 0 {
		said := unknown.Errors()[0].Error()
		field := between(said, '"')
		return nil, fmt.Errorf("line %d: %s: %s; correct its name or its indentation", i.LineOf(field), n, said)
	}
	return nil, fmt.Errorf("line %d: %s: %w", i.Line, n, err)
}

// between returns the text between the first two marks, "" if there is none.
func between(text string, mark byte) string {
	_, after, ok := strings.Cut(text, string(mark))
	if !ok {
		return ""
	}
	inner, _, _ := strings.Cut(after, string(mark))
	return inner
}
