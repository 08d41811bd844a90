// Package apisim is an in-memory Kubernetes API server for tests on virtual time. It has what clients, informers and
// controllers need, without sockets, so that all waiting in a testing/synctest bubble blocks durably. Like the real
// server, it has optimistic locking, finalizers, graceful deletion, status subresources, merge patches, watches from
// any revision, bindings, and evictions that respect PodDisruptionBudgets. A test compares it with the real one.
//
// It does not validate or authorize, sets defaults only for pods, and discards events.
package apisim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// HeaderStale on a list requests a state that is this many revisions old. The real server may return such a state
// when it serves a list from a cache (resourceVersion 0).
const HeaderStale = "Apisim-Stale"

// Server is one API server. It is an http.RoundTripper and safe for concurrent use.
type Server struct {
	mu        sync.Mutex
	revision  uint64
	serial    uint64 // the last UID
	tables    map[schema.GroupVersionResource]*table
	observers []func(Change)
	keep      int  // changes of each resource; 0 = all
	protobuf  bool // see Protobuf
}

// New returns a server without objects.
func New() *Server {
	return &Server{revision: 1, tables: map[schema.GroupVersionResource]*table{}}
}

// Observe calls f for every write, in order, while the server is locked: f must not call the server.
func (s *Server) Observe(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, f)
}

// Config returns a client configuration for the server. Requests go through the given transport if it is not nil.
func (s *Server) Config(agent string, through http.RoundTripper) *rest.Config {
	if through == nil {
		through = s
	}
	return &rest.Config{Host: "http://apisim", Transport: through, UserAgent: agent, QPS: -1}
}

// Objects returns the objects of a resource. They must not be modified.
func (s *Server) Objects(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[resource]
	if t == nil {
		return nil
	}
	var out []*unstructured.Unstructured
	for _, r := range sorted(t.items) {
		out = append(out, r.object)
	}
	return out
}

// request is one call.
type request struct {
	*http.Request
	kind                         *kind
	namespace, name, subresource string
	query                        url.Values
	body                         []byte
}

// RoundTrip answers a request.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	r := &request{Request: req, query: req.URL.Query()}
	if req.Body != nil {
		var err error
		if r.body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if found := discover(req.URL.Path); found != nil {
		return answer(req, http.StatusOK, found), nil
	}
	if err := r.locate(); err != nil {
		return failed(req, err), nil
	}
	if r.kind.Kind == "Event" {
		return forgetEvent(r), nil
	}
	if w, _ := strconv.ParseBool(r.query.Get("watch")); w && req.Method == http.MethodGet {
		stream, err := s.watch(r)
		if err != nil {
			return failed(req, err), nil
		}
		resp := answer(req, http.StatusOK, nil)
		resp.Body, resp.ContentLength = stream, -1
		stream.watching(resp)
		return resp, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	code, got, err := s.serve(r)
	if err != nil {
		return failed(req, err), nil
	}
	return answer(req, code, got), nil
}

// forgetEvent discards an event and answers as if it had been recorded.
func forgetEvent(r *request) *http.Response {
	if r.Method != http.MethodPost {
		return failed(r.Request, notFound(r))
	}
	o, err := decode(r)
	if err != nil {
		return failed(r.Request, err)
	}
	return answer(r.Request, http.StatusCreated, o.Object)
}

// serve executes a request. The caller holds the lock.
func (s *Server) serve(r *request) (int, any, error) {
	switch {
	case r.Method == http.MethodGet && r.name == "":
		return s.list(r)
	case r.Method == http.MethodGet:
		got, err := s.find(r)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusOK, json.RawMessage(got.text), nil
	case r.Method == http.MethodPost && r.subresource == "binding":
		return s.bind(r)
	case r.Method == http.MethodPost && r.subresource == "eviction":
		return s.evict(r)
	case r.Method == http.MethodPost && r.name == "":
		return s.create(r)
	case r.Method == http.MethodPut && r.name != "":
		return s.update(r)
	case r.Method == http.MethodPatch && r.name != "":
		return s.patch(r)
	case r.Method == http.MethodDelete && r.name != "":
		return s.delete(r)
	}
	return 0, nil, refusal(http.StatusMethodNotAllowed, "MethodNotAllowed", r,
		"the server does not allow this method on the requested resource")
}

// locate parses the path.
func (r *request) locate() error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return refusal(http.StatusNotFound, "NotFound", r, "the server could not find the requested resource")
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		r.namespace, parts = parts[1], parts[2:]
	}
	r.kind = kinds()[gv.WithResource(parts[0])]
	if r.kind == nil {
		return refusal(http.StatusNotFound, "NotFound", r, "the server could not find the requested resource")
	}
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.subresource = parts[2]
	}
	return nil
}

func answer(req *http.Request, code int, v any) *http.Response {
	var text []byte
	if v != nil {
		var err error
		if text, err = json.Marshal(v); err != nil {
			panic(err) // everything here came from JSON
		}
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
}
