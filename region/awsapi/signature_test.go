package awsapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The secret of AWS's published examples: "Signature Version 4 test suite" and the ListUsers example of the IAM user
// guide.
const exampleSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

func TestSignaturesOfAWSsExamples(t *testing.T) {
	for name, c := range map[string]struct {
		method, url, service, headers, contentType, signature string
	}{
		"get-vanilla": {
			"GET", "http://example.amazonaws.com/", "service", "host;x-amz-date", "",
			"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		"post-vanilla": {
			"POST", "http://example.amazonaws.com/", "service", "host;x-amz-date", "",
			"5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
		},
		"get-vanilla-query-order-key-case": {
			"GET", "http://example.amazonaws.com/?Param2=value2&Param1=value1", "service", "host;x-amz-date", "",
			"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
		},
		"ListUsers": {
			"GET", "http://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", "iam", "content-type;host;x-amz-date",
			"application/x-www-form-urlencoded; charset=utf-8",
			"5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
		},
	} {
		req := httptest.NewRequestWithContext(t.Context(), c.method, c.url, nil)
		req.Header.Set("X-Amz-Date", "20150830T123600Z")
		if c.contentType != "" {
			req.Header.Set("Content-Type", c.contentType)
		}
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/"+c.service+
			"/aws4_request, SignedHeaders="+c.headers+", Signature="+c.signature)
		s, err := readSignature(req)
		if err != nil || s.key != "AKIDEXAMPLE" {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		if err := s.verify(req, nil, exampleSecret); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.verify(req, []byte("a body that was not signed"), exampleSecret) == nil {
			t.Errorf("%s: good for another body", name)
		}
		if s.verify(req, nil, exampleSecret+"x") == nil {
			t.Errorf("%s: good with another secret", name)
		}
		req.Header.Set("X-Amz-Content-Sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
		if s.verify(req, []byte("a body whose hash is not the one signed"), exampleSecret) == nil {
			t.Errorf("%s: good for a body with another hash", name)
		}
	}
}

func TestMalformedSignaturesAreRefused(t *testing.T) {
	const good = "AWS4-HMAC-SHA256 Credential=A/20150830/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=00"
	for name, c := range map[string]struct{ header, date, code string }{
		"no date":         {good, "", "IncompleteSignature"},
		"no signature":    {strings.TrimSuffix(good, ", Signature=00"), "20150830T123600Z", "IncompleteSignature"},
		"host not signed": {strings.Replace(good, "=host", "=x", 1), "20150830T123600Z", "IncompleteSignature"},
		"another day":     {good, "20150831T123600Z", "SignatureDoesNotMatch"},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://iam.amazonaws.com/", nil)
		req.Header.Set("Authorization", c.header)
		req.Header.Set("X-Amz-Date", c.date)
		_, err := readSignature(req)
		if e, _ := asAPIError(err); err == nil || e.Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}
