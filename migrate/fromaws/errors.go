package fromaws

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/smithy-go"
)

// denied are the services' error codes for calls that are not allowed; unknown are those for invalid credentials.
var (
	denied = map[string]bool{
		"AccessDenied": true, "AccessDeniedException": true, "UnauthorizedOperation": true,
		"UnauthorizedException": true, "NotAuthorized": true,
	}
	unknown = map[string]bool{
		"AuthFailure": true, "ExpiredToken": true, "ExpiredTokenException": true, "InvalidClientTokenId": true,
		"UnrecognizedClientException": true, "SignatureDoesNotMatch": true, "InvalidSignatureException": true,
		"MissingAuthenticationToken": true,
	}
)

// explain is Explain for reads, which the AWS CLI may do instead.
func (r *reader) explain(action, about string, err error) error {
	return Explain(r.region, action, about, err, ", or give the output of the AWS CLI with -f")
}

// Explain adds to an error the call, its subject and a remedy. otherwise is an alternative if the call is refused.
func Explain(region, action, about string, err error, otherwise string) error {
	var api smithy.APIError
	remedy := "does this machine reach AWS, and is it the right region and endpoint (--region, AWS_ENDPOINT_URL)?"
	switch errors.As(err, &api); {
	case errors.Is(err, context.Canceled):
		return err
	case api != nil && denied[api.ErrorCode()]:
		remedy = "allow " + action + " for the user or role of these credentials" + otherwise
	case api != nil && unknown[api.ErrorCode()]:
		remedy = "log in again, or choose other credentials (AWS_PROFILE)"
	case api != nil:
		remedy = "try again" + otherwise
	}
	if api != nil {
		err = api // without the layers of the SDK
	}
	return fmt.Errorf("%s of %s in %s: %w; %s", action, about, region, err, remedy)
}
