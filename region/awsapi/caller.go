package awsapi

import (
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/iam"
)

// Caller is the identity that signed a request.
type Caller struct {
	ARN, UserID string
	AccessKeyID string
	Session     string // name of the role session
	// Principal holds the policies; nil for the account's administrator, who may do everything.
	Principal *region.Principal
}

// Keys finds callers by their keys: those that IAM created, and the administrator's.
type Keys struct {
	Region *region.Region
	// Administrator holds the administrator's key. Without one, any key that IAM did not create is the administrator's,
	// whatever the signature.
	Administrator aws.Credentials
	Now           func() time.Time // clock that decides whether signatures are fresh
}

// stsLifetime is how long a presigned request to STS is valid, whatever its X-Amz-Expires says
// (kubernetes-sigs/aws-iam-authenticator, pkg/token/token.go, on presignedURLExpiration).
const stsLifetime = 15 * time.Minute

// CallerOf identifies the caller of a request and verifies the signature.
func (k Keys) CallerOf(req *http.Request, body []byte) (Caller, error) {
	given, err := readSignature(req)
	key, known := k.Region.AccessKey(given.key)
	administrator := Caller{ARN: accountRoot, UserID: region.AccountID, AccessKeyID: given.key}
	switch {
	case !known && k.Administrator.AccessKeyID == "":
		return administrator, nil
	case err != nil:
		return Caller{}, err
	case !known && given.key == k.Administrator.AccessKeyID:
		key = region.AccessKey{Secret: k.Administrator.SecretAccessKey, Token: k.Administrator.SessionToken}
	case !known:
		return Caller{}, invalidToken()
	}
	if given.lifetime > 0 && strings.HasSuffix(given.scope, "/"+serviceSTS+"/aws4_request") {
		given.lifetime = stsLifetime
	}
	if err := given.check(req, body, key, k.Now(), k.Region.Now()); err != nil {
		return Caller{}, err
	}
	if !known {
		return administrator, nil
	}
	p, err := k.Region.Principal(key.Owner, key.Name)
	if err != nil {
		return Caller{}, err
	}
	who := Caller{ARN: p.ARN(), UserID: p.ID, AccessKeyID: key.ID, Session: key.Session, Principal: &p}
	if key.Session != "" {
		who.ARN = sessionARN(p.Name, key.Session)
		who.UserID += ":" + key.Session
	}
	return who, nil
}

// sessionARN returns the ARN of a role session.
func sessionARN(role, session string) string {
	return "arn:aws:sts::" + region.AccountID + ":assumed-role/" + role + "/" + session
}

// check verifies a signature against its key. now is the wall clock, by which signatures are fresh; regionNow is the
// region's clock, which may differ, and by which sessions expire.
func (s signature) check(req *http.Request, body []byte, k region.AccessKey, now, regionNow time.Time) error {
	if err := s.fresh(now); err != nil {
		return err
	}
	if err := s.verify(req, body, k.Secret); err != nil {
		return err
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(s.token), []byte(k.Token)) != 1:
		return invalidToken()
	case !k.ExpiresAt.IsZero() && !regionNow.Before(k.ExpiresAt):
		return failure(http.StatusForbidden, "ExpiredToken", "The security token included in the request is expired")
	}
	return nil
}

func invalidToken() error {
	return failure(http.StatusForbidden, "InvalidClientTokenId", "The security token included in the request is invalid.")
}

// jsonAuthCodes maps error codes of the query services to those of the JSON services.
var jsonAuthCodes = map[string]string{
	"InvalidClientTokenId": "UnrecognizedClientException", "SignatureDoesNotMatch": "InvalidSignatureException",
	"IncompleteSignature": "IncompleteSignatureException", "ExpiredToken": "ExpiredTokenException",
	"AccessDenied": "AccessDeniedException", codeExpired: "InvalidSignatureException",
}

// inWordsOf gives an authorization error the code that the service uses for it (EC2 API reference, "Error codes for
// the Amazon EC2 API"; the pages "Common Errors" of the other services).
func (a address) inWordsOf(e *region.APIError) *region.APIError {
	switch {
	case a.service == serviceEC2 && e.Code == "AccessDenied":
		return failure(http.StatusForbidden, "UnauthorizedOperation",
			"You are not authorized to perform this operation. "+e.Message)
	case a.service == serviceEC2 && (e.Code == "InvalidClientTokenId" || e.Code == "SignatureDoesNotMatch"):
		return failure(http.StatusUnauthorized, "AuthFailure",
			"AWS was not able to validate the provided access credentials. "+e.Message)
	case a.service == serviceSQS && e.Code == "AccessDenied", a.service == serviceEC2:
		return e
	case a.protocol == protocolJSON || a.protocol == protocolREST:
		if code := jsonAuthCodes[e.Code]; code != "" {
			status := http.StatusBadRequest
			if a.service == serviceEKS {
				status = http.StatusForbidden
			}
			return failure(status, code, e.Message)
		}
	case e.Code == codeExpired:
		return failure(http.StatusForbidden, "SignatureDoesNotMatch", e.Message)
	}
	return e
}

// refusal is inWordsOf for an error that may not be one of AWS's.
func (a address) refusal(err error) error {
	if e, ok := asAPIError(err); ok {
		return a.inWordsOf(e)
	}
	return err
}

// context returns the condition keys that every request of the caller has (IAM user guide, "AWS global condition
// context keys").
func (w Caller) context(regionName string, now time.Time) iam.Context {
	c := iam.Context{}
	c.Set("aws:PrincipalArn", w.ARN)
	c.Set("aws:PrincipalAccount", region.AccountID)
	c.Set("aws:userid", w.UserID)
	c.Set("aws:RequestedRegion", regionName)
	c.Set("aws:CurrentTime", now.UTC().Format(time.RFC3339))
	c.Set("aws:SecureTransport", "false") // the region listens on loopback, without TLS
	if p := w.Principal; p != nil {
		c.Set("aws:PrincipalArn", p.ARN()) // for a session, its role
		c.Set("aws:PrincipalType", map[region.PrincipalKind]string{
			region.UserPrincipal: "User", region.RolePrincipal: "AssumedRole",
		}[p.Kind])
		if p.Kind == region.UserPrincipal {
			c.Set("aws:username", p.Name)
		}
	}
	return c
}
