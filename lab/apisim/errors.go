package apisim

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal returns an error in the form that the API reports.
func refusal(code int, reason metav1.StatusReason, r *request, format string, args ...any) error {
	e := &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code:   int32(code), //nolint:gosec // of three digits
		Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
	if r != nil && r.kind != nil {
		e.ErrStatus.Details = &metav1.StatusDetails{Name: r.name, Group: r.kind.Group, Kind: r.kind.resource.Resource}
	}
	return e
}

func badRequest(format string, args ...any) error {
	return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, nil, format, args...)
}

func notFound(r *request) error {
	return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, r, "%s %q not found",
		r.kind.resource.GroupResource(), r.name)
}

func conflict(r *request, format string, args ...any) error {
	return refusal(http.StatusConflict, metav1.StatusReasonConflict, r, "Operation cannot be fulfilled on %s %q: %s",
		r.kind.resource.GroupResource(), r.name, fmt.Sprintf(format, args...))
}

// failed is the response for an error.
func failed(req *http.Request, err error) *http.Response {
	status, ok := err.(apierrors.APIStatus) //nolint:errorlint // made above, never wrapped
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	told := status.Status()
	told.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return answer(req, int(told.Code), told)
}
