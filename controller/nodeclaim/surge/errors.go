package surge

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Passes reports whether an error of the API may be gone at the next try: it is none of what was asked for.
func Passes(err error) bool {
	if err == nil {
		return false
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return true // it did not answer
	}
	code := s.Status().Code
	return code == http.StatusConflict || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}
