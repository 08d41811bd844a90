package awsapi

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSkew is the maximum difference between the signer's clock and ours (IAM user guide, "Signature Version 4 for API
// requests").
const maxSkew = 15 * time.Minute

const (
	signatureAlgorithm = "AWS4-HMAC-SHA256"
	signatureTime      = "20060102T150405Z"
	codeExpired        = "RequestExpired" // EC2's code; other services use the one for a wrong signature
)

// signature holds the signature data of a request, from its Authorization header or its URL.
type signature struct {
	key, scope string // access key, and DATE/REGION/SERVICE/aws4_request
	at         time.Time
	headers    []string // signed headers, in lower case
	value      string
	token      string        // of a session
	lifetime   time.Duration // of a presigned URL; 0 in a header
}

// readSignature reads the signature of a request for which credentialScope has found one.
func readSignature(req *http.Request) (signature, error) {
	fields, query := map[string]string{}, req.URL.Query()
	s := signature{token: req.Header.Get("X-Amz-Security-Token")}
	date := req.Header.Get("X-Amz-Date")
	if header := req.Header.Get("Authorization"); header != "" {
		for field := range strings.SplitSeq(strings.TrimPrefix(header, signatureAlgorithm), ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
			fields[name] = value
		}
	} else {
		for _, name := range []string{"Credential", "SignedHeaders", "Signature"} {
			fields[name] = query.Get("X-Amz-" + name)
		}
		date, s.token = query.Get("X-Amz-Date"), query.Get("X-Amz-Security-Token")
		seconds, err := strconv.Atoi(query.Get("X-Amz-Expires"))
		if err != nil || seconds < 1 || seconds > 7*24*3600 {
			return s, failure(http.StatusBadRequest, "IncompleteSignature", "X-Amz-Expires must be 1 to 604800 seconds")
		}
		s.lifetime = time.Duration(seconds) * time.Second
	}
	s.key, s.scope, _ = strings.Cut(fields["Credential"], "/")
	s.value, s.headers = fields["Signature"], strings.Split(fields["SignedHeaders"], ";")
	var err error
	s.at, err = time.Parse(signatureTime, date)
	if err != nil {
		s.at, err = http.ParseTime(req.Header.Get("Date"))
	}
	switch {
	case err != nil:
		return s, failure(http.StatusBadRequest, "IncompleteSignature", "Authorization header requires existence of "+
			"either a 'X-Amz-Date' or a 'Date' header.")
	case s.value == "" || !slices.Contains(s.headers, "host"):
		return s, failure(http.StatusBadRequest, "IncompleteSignature",
			"Authorization header requires 'Signature' and 'SignedHeaders' parameters, and 'host' among the latter.")
	case !strings.HasPrefix(s.scope, s.at.UTC().Format("20060102")+"/"):
		return s, failure(http.StatusForbidden, "SignatureDoesNotMatch",
			"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP")
	}
	return s, nil
}

// fresh returns an error if a signature has expired or is not yet valid.
func (s signature) fresh(now time.Time) error {
	form := func(t time.Time) string { return t.UTC().Format(signatureTime) }
	switch {
	case s.lifetime > 0 && now.After(s.at.Add(s.lifetime)):
		return failure(http.StatusBadRequest, codeExpired, "Signature expired: the URL was good until "+
			form(s.at.Add(s.lifetime)))
	case s.lifetime == 0 && now.Sub(s.at) > maxSkew:
		return failure(http.StatusBadRequest, codeExpired, fmt.Sprintf(
			"Signature expired: %s is now earlier than %s (%s - 15 min.)", form(s.at), form(now.Add(-maxSkew)), form(now)))
	case s.at.Sub(now) > maxSkew:
		return failure(http.StatusBadRequest, codeExpired, fmt.Sprintf(
			"Signature not yet current: %s is still later than %s (%s + 15 min.)", form(s.at), form(now.Add(maxSkew)),
			form(now)))
	}
	return nil
}

// verify returns an error unless a request with this body was signed with secret.
func (s signature) verify(req *http.Request, body []byte, secret string) error {
	hash := sha256.Sum256(body)
	payload := cmp.Or(req.Header.Get("X-Amz-Content-Sha256"), hex.EncodeToString(hash[:]))
	signed := s.sign(canonicalRequest(req, s.headers, payload), secret)
	whole := payload == hex.EncodeToString(hash[:]) || payload == "UNSIGNED-PAYLOAD"
	if !whole || subtle.ConstantTimeCompare([]byte(signed), []byte(s.value)) != 1 {
		return failure(http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match "+
			"the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service "+
			"documentation for details.")
	}
	return nil
}

// sign returns the signature of a canonical request (IAM user guide, "Create a signed AWS API request", steps 3 and 4).
func (s signature) sign(canonical, secret string) string {
	hash := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{
		signatureAlgorithm, s.at.UTC().Format(signatureTime), s.scope, hex.EncodeToString(hash[:]),
	}, "\n")
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(s.scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

// canonicalRequest returns the canonical form of a request, which is what gets signed (step 1). Paths are escaped
// twice, as for every service but S3.
func canonicalRequest(req *http.Request, signed []string, payload string) string {
	var query []string
	parameters := req.URL.Query()
	parameters.Del("X-Amz-Signature")
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		for _, v := range slices.Sorted(slices.Values(parameters[name])) {
			query = append(query, escapeRFC3986(name)+"="+escapeRFC3986(v))
		}
	}
	path := strings.ReplaceAll(escapeRFC3986(cmp.Or(req.URL.EscapedPath(), "/")), "%2F", "/")
	lines := []string{req.Method, path, strings.Join(query, "&")}
	for _, name := range signed {
		values := slices.Clone(req.Header.Values(name))
		switch name {
		case "host":
			values = []string{req.Host}
		case "content-length":
			values = []string{strconv.FormatInt(req.ContentLength, 10)}
		}
		for i, v := range values {
			values[i] = strings.Join(strings.Fields(v), " ")
		}
		lines = append(lines, name+":"+strings.Join(values, ","))
	}
	return strings.Join(append(lines, "", strings.Join(signed, ";"), payload), "\n")
}

// escapeRFC3986 escapes all but the unreserved characters.
func escapeRFC3986(s string) string {
	return strings.NewReplacer("+", "%20", "%7E", "~").Replace(url.QueryEscape(s))
}
