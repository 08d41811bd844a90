package awsapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/nodeless/nodeless/region"
)

// apiError is an error in AWS's form.
type apiError struct {
	Status  int // HTTP
	Code    string
	Message string
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

func failure(status int, code, message string) *apiError {
	return &apiError{Status: status, Code: code, Message: message}
}

// statuses are the HTTP status of codes that are not 400 Bad Request.
var statuses = map[string]int{
	"RequestLimitExceeded":                 http.StatusServiceUnavailable,
	"Unavailable":                          http.StatusServiceUnavailable,
	"ServiceUnavailable":                   http.StatusServiceUnavailable,
	"InternalError":                        http.StatusInternalServerError,
	"InternalFailure":                      http.StatusInternalServerError,
	"InsufficientInstanceCapacity":         http.StatusInternalServerError,
	"UnauthorizedOperation":                http.StatusForbidden,
	"AuthFailure":                          http.StatusUnauthorized,
	"MissingAuthenticationToken":           http.StatusForbidden,
	"DryRunOperation":                      http.StatusPreconditionFailed,
	"NoSuchEntity":                         http.StatusNotFound,
	"EntityAlreadyExists":                  http.StatusConflict,
	"DeleteConflict":                       http.StatusConflict,
	"LimitExceeded":                        http.StatusConflict,
	"ResourceNotFoundException":            http.StatusNotFound,
	"AccessDenied":                         http.StatusForbidden,
	"OptInRequired":                        http.StatusForbidden,
	"ServiceUnavailableException":          http.StatusServiceUnavailable,
	"InternalServerError":                  http.StatusInternalServerError,
	"ServerException":                      http.StatusInternalServerError,
	"InternalErrorException":               http.StatusInternalServerError,
	"InsufficientCapacity":                 http.StatusInternalServerError,
	"InsufficientHostCapacity":             http.StatusInternalServerError,
	"InsufficientAddressCapacity":          http.StatusInternalServerError,
	"InsufficientVolumeCapacity":           http.StatusInternalServerError,
	"InsufficientReservedInstanceCapacity": http.StatusInternalServerError,
}

func statusOf(code string) int {
	if s, ok := statuses[code]; ok {
		return s
	}
	return http.StatusBadRequest
}

// asAPIError returns err in the form of the wire; ok is false for a fault of this program.
func asAPIError(err error) (e *apiError, ok bool) {
	if errors.As(err, &e) {
		return e, true
	}
	if a, ok := errors.AsType[*region.APIError](err); ok {
		status := a.HTTPStatus
		if status == 0 || status == http.StatusBadRequest {
			status = statusOf(a.Code)
		}
		return failure(status, a.Code, a.Message), true
	}
	return failure(http.StatusInternalServerError, "InternalError", "An internal error has occurred"), false
}

func outOfRange(name string, value, low, top int) *apiError {
	return failure(http.StatusBadRequest, "InvalidParameterValue",
		fmt.Sprintf("Value %d for parameter %s is invalid. Reason: Must be between %d and %d.", value, name, low, top))
}
