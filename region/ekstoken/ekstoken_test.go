package ekstoken

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

var (
	now  = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	root = aws.Credentials{AccessKeyID: "AKIAEXAMPLE", SecretAccessKey: "secret"}
)

const emptyBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // its SHA-256

// keysAt returns the keys of a new region whose administrator has the key root.
func keysAt(t *testing.T, at func() time.Time) awsapi.Keys {
	t.Helper()
	r, err := region.Open(region.Config{Name: "us-west-2", Clock: clock.Real{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return awsapi.Keys{Region: r, Administrator: root, Now: at}
}

func atNow() time.Time { return now }

const call = "https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60"

// request holds what a token is made from.
type request struct {
	url, cluster string
	credentials  aws.Credentials
	at           time.Time
	headers      map[string]string
}

func good() request { return request{url: call, cluster: "nodeless", credentials: root, at: now} }

// signed returns the presigned URL of a request.
func (r request) signed(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(clusterHeader, r.cluster)
	for k, v := range r.headers {
		req.Header.Set(k, v)
	}
	out, _, err := v4.NewSigner().PresignHTTP(t.Context(), r.credentials, req, emptyBody, "sts", "us-west-2", r.at)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func encode(u string) string { return Prefix + base64.RawURLEncoding.EncodeToString([]byte(u)) }

func TestATokenIsGoodForFifteenMinutes(t *testing.T) {
	keys := keysAt(t, atNow)
	for name, at := range map[string]time.Time{
		"new": now, "14m59s old": now.Add(-15*time.Minute + time.Second), "of a clock 14m ahead": now.Add(14 * time.Minute),
	} {
		r := good()
		r.at = at
		if who, err := Caller(t.Context(), keys, "nodeless", encode(r.signed(t))); err != nil || who.Principal != nil {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	for _, endpoint := range []string{"https://sts.amazonaws.com", "http://127.0.0.1:4566", "http://localhost:4566"} {
		r := good()
		r.url = strings.Replace(r.url, "https://sts.us-west-2.amazonaws.com", endpoint, 1)
		if _, err := Caller(t.Context(), keys, "nodeless", encode(r.signed(t))); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

func TestATokenOfAnIAMUserAndOfASession(t *testing.T) {
	keys := keysAt(t, atNow)
	const trust = `{"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}}`
	for kind, name := range map[region.PrincipalKind]string{region.UserPrincipal: "ann", region.RolePrincipal: "ci"} {
		if _, err := keys.Region.CreatePrincipal(kind, name, "/", trust, nil); err != nil {
			t.Fatal(err)
		}
	}
	ann, err := keys.Region.CreateAccessKey("ann")
	if err != nil {
		t.Fatal(err)
	}
	session, err := keys.Region.AssumeRole("ci", "build-7", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for want, k := range map[string]region.AccessKey{
		"arn:aws:iam::123456789012:user/ann": ann, "arn:aws:sts::123456789012:assumed-role/ci/build-7": session,
	} {
		r := good()
		r.credentials = aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret, SessionToken: k.Token}
		who, err := Caller(t.Context(), keys, "nodeless", encode(r.signed(t)))
		if err != nil || who.ARN != want || who.Principal == nil || who.AccessKeyID != k.ID {
			t.Errorf("%+v, %v; want %s", who, err, want)
		}
	}
}

func TestOtherTokensAreRefused(t *testing.T) {
	keys := keysAt(t, atNow)
	with := func(change func(*request)) string {
		r := good()
		change(&r)
		return encode(r.signed(t))
	}
	const wrong = "signature we calculated does not match"
	plain := good().signed(t)
	unsignedHeader, err := http.NewRequestWithContext(t.Context(), http.MethodGet, call, nil)
	if err != nil {
		t.Fatal(err)
	}
	noCluster, _, err := v4.NewSigner().PresignHTTP(t.Context(), root, unsignedHeader, emptyBody, "sts", "us-west-2", now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ token, want string }{
		"expired":         {with(func(r *request) { r.at = now.Add(-15*time.Minute - time.Second) }), "Signature expired"},
		"from the future": {with(func(r *request) { r.at = now.Add(16 * time.Minute) }), "not yet current"},
		"another secret":  {with(func(r *request) { r.credentials.SecretAccessKey = "guess" }), wrong},
		"another key": {
			with(func(r *request) { r.credentials.AccessKeyID = "AKIAOTHER" }),
			"security token included in the request is invalid",
		},
		"another cluster": {with(func(r *request) { r.cluster = "prod" }), wrong},
		"no cluster":      {encode(noCluster), `X-Amz-SignedHeaders="host"`},
		"another action": {with(func(r *request) {
			r.url = strings.Replace(call, "GetCallerIdentity", "AssumeRole",
				1)
		}), `Action="AssumeRole"`},
		"another host": {with(func(r *request) {
			r.url = strings.Replace(call, "sts.us-west-2.amazonaws.com",
				"example.com", 1)
		}), "not one of STS"},
		"a host like STS's": {with(func(r *request) {
			r.url = strings.Replace(call, "amazonaws.com",
				"amazonaws.com.example.com", 1)
		}), "not one of STS"},
		"a path": {
			with(func(r *request) { r.url = strings.Replace(call, "/?", "/bucket?", 1) }),
			"not one of STS",
		},
		"more parameters": {with(func(r *request) { r.url += "&Role=admin" }), `Role="admin"`},
		"more headers": {
			with(func(r *request) { r.headers = map[string]string{"x-other": "1"} }),
			"X-Amz-SignedHeaders",
		},
		"a parameter twice": {encode(plain + "&Action=GetCallerIdentity"), "Action="},
		"a long expiry": {
			with(func(r *request) { r.url = strings.Replace(call, "Expires=60", "Expires=901", 1) }),
			"X-Amz-Expires",
		},
		"a changed date": {encode(strings.Replace(plain, "T120000Z", "T120100Z", 1)), wrong},
		"a changed host": {
			encode(strings.Replace(plain, "us-west-2.amazonaws", "us-east-1.amazonaws", 1)),
			wrong,
		},
		"no signature": {encode(plain[:strings.Index(plain, "&X-Amz-Signature")]), "lacks parameters"},
		"no URL":       {Prefix + "!", "not base64url"},
		"nothing":      {Prefix, "not one of STS"},
		"another kind": {"eyJhbGciOi.e30.x", "does not begin with"},
		"too long":     {Prefix + strings.Repeat("a", longest), "longer than"},
	} {
		if _, err := Caller(t.Context(), keys, "nodeless", c.token); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// botocore, an independent implementation, is what `aws eks get-token` signs with.
func TestATokenOfBotocoreIsGood(t *testing.T) {
	const python = "/usr/bin/python3" // Debian's Python, which sees Debian's packages
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import botocore").CombinedOutput(); err != nil {
		if os.Getenv("NODELESS_REQUIRE_BOTO3") == "1" {
			t.Fatalf("botocore is required but absent: apt-get install -y python3-boto3\n%s", out)
		}
		t.Skip("botocore is absent, so its signature was not tried: apt-get install -y python3-boto3")
	}
	const script = `
import botocore.session, base64, sys
from botocore.signers import RequestSigner
s = botocore.session.get_session()
s.set_credentials("AKIAEXAMPLE", "secret")
c = s.create_client("sts", region_name="us-west-2", endpoint_url=sys.argv[1] or None)
signer = RequestSigner(c.meta.service_model.service_id, "us-west-2", "sts", "v4", s.get_credentials(), s.get_component("event_emitter"))
url = (sys.argv[1] or "https://sts.us-west-2.amazonaws.com") + "/?Action=GetCallerIdentity&Version=2011-06-15"
print(signer.generate_presigned_url({"method": "GET", "url": url, "body": {}, "headers": {"x-k8s-aws-id": "nodeless"}, "context": {}},
    region_name="us-west-2", expires_in=60, operation_name=""))
`
	keys := keysAt(t, time.Now)
	for _, endpoint := range []string{"", "http://127.0.0.1:4566"} {
		out, err := exec.CommandContext(t.Context(), python, "-c", script, endpoint).Output()
		if err != nil {
			t.Fatal(err)
		}
		u := strings.TrimSpace(string(out))
		if parsed, err := url.Parse(u); err != nil || parsed.Query().Get("X-Amz-Signature") == "" {
			t.Fatalf("botocore gave %q", u)
		}
		if _, err := Caller(t.Context(), keys, "nodeless", encode(u)); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}
