package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxBody exceeds what an API server sends: etcd stores objects of up to 1.5 MiB, and an update carries two of them.
const maxBody = 8 << 20

// answer is the answer to a request: warnings, a refusal, a JSON patch, or nothing.
type answer struct {
	warnings []string
	refusal  string
	patch    []operation
}

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// handler answers one request; an error says that the object cannot be read.
type handler func(context.Context, *admissionv1.AdmissionRequest) (answer, error)

func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	for path, h := range map[string]handler{
		podsPath: s.pods, workloadsPath: s.workloads, profilesPath: s.profiles,
		loggingPath: s.awsLogging, poolsPath: s.pools,
	} {
		mux.HandleFunc("POST "+s.o.At.path(path), func(w http.ResponseWriter, r *http.Request) { s.review(w, r, h) })
	}
	return mux
}

// review decodes an AdmissionReview and answers it.
func (s *Server) review(w http.ResponseWriter, r *http.Request, h handler) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("the webhook failed on a request; please report this", "path", r.URL.Path, "panic", p, "stack",
				string(debug.Stack()))
			http.Error(w, "the webhook failed; its log says how", http.StatusInternalServerError)
		}
	}()
	var in admissionv1.AdmissionReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, fmt.Sprintf("read AdmissionReview: %v", err), http.StatusBadRequest)
		return
	}
	if in.Request == nil || in.GroupVersionKind() != (schema.GroupVersionKind{
		Group: admissionv1.GroupName, Version: "v1",
		Kind: "AdmissionReview",
	}) {
		http.Error(w, "not a request of admission.k8s.io/v1 AdmissionReview", http.StatusBadRequest)
		return
	}
	a, err := h(r.Context(), in.Request)
	if err != nil {
		a = answer{refusal: err.Error()}
	}
	out := admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: &admissionv1.AdmissionResponse{
		UID: in.Request.UID, Allowed: a.refusal == "", Warnings: a.warnings,
	}}
	if a.refusal != "" {
		out.Response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid,
			Code: http.StatusUnprocessableEntity, Message: a.refusal,
		}
	}
	if len(a.patch) > 0 {
		kind := admissionv1.PatchTypeJSONPatch
		out.Response.PatchType = &kind
		if out.Response.Patch, err = json.Marshal(a.patch); err != nil {
			http.Error(w, fmt.Sprintf("write patch: %v", err), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // fails only if the client is gone
}
