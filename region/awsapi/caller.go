package awsapi

import (
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/iam"
)

// caller is who signed a request.
type caller struct {
	arn, userID string
	// principal has the policies; nil for the account's administrator, who may do everything.
	principal *region.Principal
}

// administrator is the account's root user.
var administrator = caller{arn: accountRoot, userID: region.AccountID}

// authenticate finds out who signed a request, and checks the signature. Keys that IAM made are always checked. Of
// others the administrator's is the only one, if the region has one; without one any key is the administrator's.
func (s *server) authenticate(c *call, req *http.Request) (caller, error) {
	given, err := readSignature(req)
	key, known := s.region.AccessKey(given.key)
	switch {
	case !known && s.admin.AccessKeyID == "":
		return administrator, nil
	case err != nil:
		return caller{}, err
	case !known && given.key == s.admin.AccessKeyID:
		key = region.AccessKey{Secret: s.admin.SecretAccessKey, Token: s.admin.SessionToken}
	case !known:
		return caller{}, invalidToken()
	}
	if err := given.check(req, c.body, key, s.now(), s.region.Now()); err != nil {
		return caller{}, err
	}
	if !known {
		return administrator, nil
	}
	p, err := s.region.Principal(key.Owner, key.Name)
	if err != nil {
		return caller{}, err
	}
	who := caller{arn: p.ARN(), userID: p.ID, principal: &p}
	if key.Session != "" {
		who.arn = sessionARN(p.Name, key.Session)
		who.userID += ":" + key.Session
	}
	return who, nil
}

// sessionARN is the ARN of a session of a role.
func sessionARN(role, session string) string {
	return "arn:aws:sts::" + region.AccountID + ":assumed-role/" + role + "/" + session
}

// check compares a signature to the key it names. now is the clock of the wire; the region's own may be another, and
// sessions live by it.
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

// jsonAuthCodes are the codes of services that speak JSON for what those of forms call otherwise.
var jsonAuthCodes = map[string]string{
	"InvalidClientTokenId": "UnrecognizedClientException", "SignatureDoesNotMatch": "InvalidSignatureException",
	"IncompleteSignature": "IncompleteSignatureException", "ExpiredToken": "ExpiredTokenException",
	"AccessDenied": "AccessDeniedException", codeExpired: "InvalidSignatureException",
}

// inWordsOf gives a refusal the code that a service has for it (EC2 API reference, "Error codes for the Amazon EC2
// API"; the pages "Common Errors" of the other services).
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

// refusal is inWordsOf for an error that may be none of AWS's.
func (a address) refusal(err error) error {
	if e, ok := asAPIError(err); ok {
		return a.inWordsOf(e)
	}
	return err
}

// context returns the condition keys that every request of the caller has (IAM user guide, "AWS global condition
// context keys").
func (w caller) context(regionName string, now time.Time) iam.Context {
	c := iam.Context{}
	c.Set("aws:PrincipalArn", w.arn)
	c.Set("aws:PrincipalAccount", region.AccountID)
	c.Set("aws:userid", w.userID)
	c.Set("aws:RequestedRegion", regionName)
	c.Set("aws:CurrentTime", now.UTC().Format(time.RFC3339))
	c.Set("aws:SecureTransport", "false") // the region answers on loopback, without TLS
	if p := w.principal; p != nil {
		c.Set("aws:PrincipalArn", p.ARN()) // of a session, its role
		c.Set("aws:PrincipalType", map[region.PrincipalKind]string{
			region.UserPrincipal: "User", region.RolePrincipal: "AssumedRole",
		}[p.Kind])
		if p.Kind == region.UserPrincipal {
			c.Set("aws:username", p.Name)
		}
	}
	return c
}
