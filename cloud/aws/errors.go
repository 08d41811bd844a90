package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/nodeless/nodeless/cloud"
)

// Error codes of AWS with a meaning here (karpenter.md §6.6, node-groups-and-ips.md §5.2).
const (
	codeTokenMismatch   = "IdempotentParameterMismatch"
	codeNoSpotRole      = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	codeNoAddresses     = "InsufficientFreeAddressesInSubnet"
	codeInstanceMissing = "InvalidInstanceID.NotFound"
	codeNoEntity        = "NoSuchEntity"
	codeEntityExists    = "EntityAlreadyExists"
)

// capacityCodes are the fleet errors that mean: not this offering, not now.
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
	"OptInRequired": true,
}

// code is AWS's error code, "" if err is not AWS's.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// isMissingTemplate reports whether EC2 does not know a launch template.
func isMissingTemplate(code string) bool {
	return strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.Contains(code, "NotFound")
}

// wrap names the act that failed and gives the error the sentinel that its code means. action is the IAM action.
func wrap(act, action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, classify(action, err))
}

func classify(action string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return classifyCode(action, code(err), err)
}

// launchError is classify for calls that start instances. What EC2 refuses and is no matter of capacity, time or
// permissions fails again as long as class and pool are as they are.
func launchError(action, code string, err error) error {
	if code == "" || throttleCodes[code] || authCodes[code] || serverCodes[code] {
		return classifyCode(action, code, err)
	}
	return fmt.Errorf("%w: %w", cloud.ErrRefused, err)
}

// brief is an error of AWS without the wrapping of the SDK, which names each request: what is the same stays the same.
func brief(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		return &fleetFault{code: api.ErrorCode(), message: api.ErrorMessage()}
	}
	return err
}

// serverCodes are AWS's own trouble, which passes (EC2 API reference, "Error codes", server error codes).
var serverCodes = map[string]bool{
	"InternalError": true, "InternalFailure": true, "ServerInternal": true, "Unavailable": true,
	"ServiceUnavailable": true, "RequestTimeout": true,
	"RequestExpired": true, "DryRunOperation": true,
}

func classifyCode(action, code string, err error) error {
	switch {
	case throttleCodes[code]:
		return fmt.Errorf("%w: AWS asks to slow down: %w", cloud.ErrThrottled, err)
	case authCodes[code]:
		return fmt.Errorf("%w: allow %s for the controller's IAM role, or check its credentials: %w", cloud.ErrUnauthorized,
			action, err)
	}
	return err
}
