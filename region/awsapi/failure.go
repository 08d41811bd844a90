package awsapi

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/nodeless/nodeless/region"
)

func failure(status int, code, message string) *region.APIError {
	return &region.APIError{HTTPStatus: status, Code: code, Message: message}
}

// statuses maps error codes to their HTTP statuses where these are not 400 Bad Request.
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
	"ResourceInUseException":               http.StatusConflict,
	"ResourceNotFoundException":            http.StatusNotFound,
	"ConflictException":                    http.StatusConflict,
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

// asAPIError returns err with the HTTP status of its code; ok is false if err is an internal error of this program.
func asAPIError(err error) (e *region.APIError, ok bool) {
	if !errors.As(err, &e) {
		return failure(http.StatusInternalServerError, "InternalError", "An internal error has occurred"), false
	}
	if e.HTTPStatus == 0 || e.HTTPStatus == http.StatusBadRequest {
		e = failure(cmp.Or(statuses[e.Code], http.StatusBadRequest), e.Code, e.Message)
	}
	return e, true
}
