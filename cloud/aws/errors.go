package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/nodeless/nodeless/cloud"
)

// Error codes of AWS with a meaning here (github.com/aws/karpenter-provider-aws/pkg/providers/instance,
// docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html).
const (
	codeTokenMismatch   = "IdempotentParameterMismatch"
	codeNoSpotRole      = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	codeNoAddresses     = "InsufficientFreeAddressesInSubnet"
	codeInstanceMissing = "InvalidInstanceID.NotFound"
	codeNoEntity        = "NoSuchEntity"
	codeEntityExists    = "EntityAlreadyExists"

	codeReservationMissing = "InvalidCapacityReservationId.NotFound"
)

// capacityCodes are the fleet errors that mean that an offering cannot be launched now.
var capacityCodes = map[string]bool{
	"InsufficientInstanceCapacity":  true,
	"MaxSpotInstanceCountExceeded":  true,
	"VcpuLimitExceeded":             true,
	"UnfulfillableCapacity":         true,
	"Unsupported":                   true,
	codeNoAddresses:                 true,
	"MaxFleetCountExceeded":         true,
	"ReservationCapacityExceeded":   true,
	codeNoSpotRole:                  true,
	"InsufficientHostCapacity":      true,
	"InsufficientReservedInstances": true,
}

var throttleCodes = map[string]bool{
	"RequestLimitExceeded": true, "Throttling": true, "ThrottlingException": true, "ThrottledException": true,
	"TooManyRequestsException": true, "EC2ThrottledException": true, "SlowDown": true, "RequestThrottled": true,
	"RequestThrottledException": true, "PriorRequestNotComplete": true, "BandwidthLimitExceeded": true,
}

var authCodes = map[string]bool{
	"UnauthorizedOperation": true, "AccessDenied": true, "AccessDeniedException": true, "AuthFailure": true,
	"ExpiredToken": true, "ExpiredTokenException": true, "InvalidClientTokenId": true,
	"UnrecognizedClientException": true, "SignatureDoesNotMatch": true, "MissingAuthenticationToken": true,
	"InvalidSignatureException": true, "OptInRequired": true,
}

// serverCodes are temporary failures on AWS's side (EC2 API reference, "Error codes", server error codes).
var serverCodes = map[string]bool{
	"InternalError": true, "InternalFailure": true, "ServerInternal": true, "Unavailable": true,
	"ServiceUnavailable": true, "RequestTimeout": true, "DryRunOperation": true,
}

// remedyForTime returns the remedy if AWS refuses a request because of the time at which it was signed, else "". EC2
// and S3 have codes for this, of which EC2 uses RequestExpired for expired credentials, too; the other services use the
// code for a wrong signature (docs.aws.amazon.com/IAM/latest/UserGuide, "Troubleshoot SigV4 signing"). The SDK corrects
// its clock by AWS's answers, so such an error is one that it could not mend.
func remedyForTime(err error) string {
	const skewed = "correct the clock of the controller's machine, which differs from AWS's by more than AWS allows"
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return ""
	}
	switch api.ErrorCode() {
	case "RequestExpired":
		return "correct the clock of the controller's machine, or renew its credentials: one of the two is out of date"
	case "RequestInTheFuture", "RequestTimeTooSkewed":
		return skewed
	case "SignatureDoesNotMatch", "InvalidSignatureException":
		if strings.HasPrefix(api.ErrorMessage(), "Signature expired") ||
			strings.HasPrefix(api.ErrorMessage(), "Signature not yet current") {
			return skewed
		}
	}
	return ""
}

// code returns AWS's error code, "" if err is not an error of AWS.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// isMissingTemplate reports whether a code means that EC2 does not know a launch template.
func isMissingTemplate(code string) bool {
	return strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.Contains(code, "NotFound")
}

// wrap adds to an error of AWS the operation and its object and, by the error's code, a sentinel of package cloud and
// the remedy. action is the IAM action that the operation needs.
func wrap(act, action string, err error) error {
	switch c := code(err); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case throttleCodes[c]:
		return fmt.Errorf("%s: %w: AWS asks to slow down: %w", act, cloud.ErrThrottled, err)
	case remedyForTime(err) != "":
		return fmt.Errorf("%s: %w: %s: %w", act, cloud.ErrUnauthorized, remedyForTime(err), err)
	case authCodes[c]:
		return fmt.Errorf("%s: %w: allow %s for the controller's IAM role, or check its credentials: %w", act,
			cloud.ErrUnauthorized, action, err)
	}
	return fmt.Errorf("%s: %w", act, err)
}

// wrapLaunch is wrap for calls that start instances. A call that EC2 refuses for a reason other than capacity, load
// or permissions fails again until the class or the pool is changed.
func wrapLaunch(act, action string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return wrap(act, action, err)
	}
	c := code(err)
	err = steady(err)
	if c == "" || throttleCodes[c] || authCodes[c] || serverCodes[c] || remedyForTime(err) != "" {
		return wrap(act, action, err)
	}
	return fmt.Errorf("%s: %w: %w", act, cloud.ErrRefused, err)
}

// steady returns an error of AWS without the SDK's own words, which differ with each request, and others as they are.
func steady(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return &fleetFault{api.ErrorCode(), api.ErrorMessage()}
	}
	return err
}

// fleetFault is an error in an answer of CreateFleet, or the part of an SDK error that AWS sent.
type fleetFault struct{ code, message string }

var _ smithy.APIError = (*fleetFault)(nil)

func (e *fleetFault) Error() string                 { return e.code + ": " + e.message }
func (e *fleetFault) ErrorCode() string             { return e.code }
func (e *fleetFault) ErrorMessage() string          { return e.message }
func (e *fleetFault) ErrorFault() smithy.ErrorFault { return smithy.FaultUnknown }

// eachPage calls do with every page of a list. act and action are those of wrap.
func eachPage[Page, Options any](
	ctx context.Context, pages interface {
		HasMorePages() bool
		NextPage(context.Context, ...func(*Options)) (*Page, error)
	}, act, action string, do func(*Page),
) error {
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return wrap(act, action, err)
		}
		do(page)
	}
	return nil
}
