package apisim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// decode decodes the body: JSON, or protobuf of a built-in kind.
func decode(r *request) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
		typed, gvk, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(r.body, nil, nil)
		if err != nil {
			return nil, badRequest("body: %v", err)
		}
		if object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
			return nil, badRequest("body: %v", err)
		}
		object.SetGroupVersionKind(*gvk)
		return object, nil
	}
	if err := utiljson.Unmarshal(r.body, &object.Object); err != nil {
		return nil, badRequest("body: %v", err)
	}
	return object, nil
}

func sorted(items map[string]*record) []*record {
	out := make([]*record, 0, len(items))
	for _, k := range slices.Sorted(maps.Keys(items)) {
		out = append(out, items[k])
	}
	return out
}

func (s *Server) find(r *request) (*record, error) {
	if got := s.table(r.kind).items[key(r.namespace, r.name)]; got != nil {
		return got, nil
	}
	return nil, notFound(r)
}

func (s *Server) list(r *request) (int, any, error) {
	f, err := newFilter(r.namespace, r.query)
	if err != nil {
		return 0, nil, err
	}
	t, revision := s.table(r.kind), s.revision
	items := t.items
	if stale, _ := strconv.ParseUint(r.Header.Get(HeaderStale), 10, 64); stale > 0 {
		revision -= min(stale, revision-1)
		items = t.at(revision)
	}
	texts := []rawObject{}
	for _, x := range sorted(items) {
		if f.matches(x.object) {
			texts = append(texts, x.text)
		}
	}
	return http.StatusOK, map[string]any{
		"kind": r.kind.Kind + "List", "apiVersion": r.kind.GroupVersion().String(),
		"metadata": map[string]string{"resourceVersion": strconv.FormatUint(revision, 10)}, "items": texts,
	}, nil
}

// rawObject is an object encoded as JSON.
type rawObject []byte

// MarshalJSON returns the object unchanged.
func (o rawObject) MarshalJSON() ([]byte, error) { return o, nil }

func (s *Server) create(r *request) (int, any, error) {
	o, err := decode(r)
	if err != nil {
		return 0, nil, err
	}
	o.SetGroupVersionKind(r.kind.GroupVersionKind)
	if r.kind.namespaced {
		o.SetNamespace(r.namespace)
	}
	s.serial++
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + fmt.Sprintf("%05x", s.serial))
	}
	r.name = o.GetName()
	t := s.table(r.kind)
	if t.items[key(r.namespace, r.name)] != nil {
		return 0, nil, refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists, r, "%s %q already exists",
			r.kind.resource.GroupResource(), r.name)
	}
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", s.serial)))
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	o.SetGeneration(1)
	o.SetDeletionTimestamp(nil)
	o.SetSelfLink("")
	if r.kind.custom {
		delete(o.Object, "status")
	}
	if r.kind.Kind == "Pod" {
		if o, err = newPod(o); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusCreated, rawObject(s.put(t, nil, o, r.UserAgent()).text), nil
}

func (s *Server) update(r *request) (int, any, error) {
	was, err := s.find(r)
	if err != nil {
		return 0, nil, err
	}
	o, err := decode(r)
	if err != nil {
		return 0, nil, err
	}
	return s.replace(r, was, o)
}

func (s *Server) patch(r *request) (int, any, error) {
	was, err := s.find(r)
	if err != nil {
		return 0, nil, err
	}
	o := &unstructured.Unstructured{}
	switch how := types.PatchType(strings.Split(r.Header.Get("Content-Type"), ";")[0]); how {
	case types.MergePatchType:
		var change map[string]any
		if err := utiljson.Unmarshal(r.body, &change); err != nil {
			return 0, nil, badRequest("patch: %v", err)
		}
		merged, _ := merge(was.object.DeepCopy().Object, change).(map[string]any)
		o.Object = merged
	case types.StrategicMergePatchType:
		typed, err := clientgoscheme.Scheme.New(r.kind.GroupVersionKind)
		if err != nil {
			return 0, nil, refusal(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, r,
				"%s on a custom resource", how)
		}
		merged, err := strategicpatch.StrategicMergePatch(was.text, r.body, typed)
		if err != nil {
			return 0, nil, badRequest("patch: %v", err)
		}
		if err := utiljson.Unmarshal(merged, &o.Object); err != nil {
			return 0, nil, badRequest("patch: %v", err)
		}
	default:
		return 0, nil, refusal(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, r,
			"patches of type %s are not known here", how)
	}
	return s.replace(r, was, o)
}

// merge applies a JSON merge patch (RFC 7386).
func merge(into any, change any) any {
	c, ok := change.(map[string]any)
	if !ok {
		return change
	}
	out, ok := into.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for k, v := range c {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = merge(out[k], v)
		}
	}
	return out
}
