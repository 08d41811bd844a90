// Package ekstoken verifies the tokens with which AWS's tools log in to an EKS cluster (`aws eks get-token`,
// aws-iam-authenticator, Terraform's aws_eks_cluster_auth).
//
// Such a token is a presigned request to STS, GetCallerIdentity, with the cluster's name in a signed header, in
// base64url after "k8s-aws-v1." (kubernetes-sigs/aws-iam-authenticator, README, "API Authorization from Outside a
// Cluster"). EKS lets STS judge the signature; here the one account's key is known, and the signature is computed
// again.
package ekstoken

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Prefix is the prefix of every such token.
const Prefix = "k8s-aws-v1."

const (
	longest       = 4096 // bytes of a token
	clusterHeader = "x-k8s-aws-id"
	signedHeaders = "host;" + clusterHeader
	lifetime      = 15 * time.Minute // whatever X-Amz-Expires says: EKS, "Learn how access control works in Amazon EKS"
	skew          = 5 * time.Minute  // by which a caller's clock may be ahead: Signature Version 4
	emptyBody     = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// Verifier accepts tokens for one cluster and one access key.
type Verifier struct {
	Cluster     string
	Credentials aws.Credentials
	Now         func() time.Time
}

// Verify returns why a token is not currently valid for the cluster and the access key; nil if it is.
func (v Verifier) Verify(ctx context.Context, token string) error {
	asked, err := decode(token)
	if err != nil {
		return err
	}
	query := asked.Query()
	signature := query.Get("X-Amz-Signature")
	scope, at, err := v.scope(query)
	if err != nil {
		return err
	}
	if age := v.Now().Sub(at); age > lifetime || age < -skew {
		return fmt.Errorf("it was signed at %s and is valid for %s; get a new one", at.Format(time.RFC3339), lifetime)
	}
	for _, computed := range []string{
		"X-Amz-Signature", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date",
		"X-Amz-SignedHeaders",
	} {
		query.Del(computed)
	}
	asked.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, asked.String(), nil)
	if err != nil {
		return fmt.Errorf("its URL: %w", err)
	}
	req.Header.Set(clusterHeader, v.Cluster)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, v.Credentials, req, emptyBody, "sts", scope, at)
	if err != nil {
		return fmt.Errorf("compute its signature: %w", err)
	}
	ours, err := url.Parse(signed)
	if err != nil {
		return fmt.Errorf("compute its signature: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(ours.Query().Get("X-Amz-Signature")), []byte(signature)) != 1 {
		return fmt.Errorf("its signature is wrong: it was not made with this cluster's secret key, or not for cluster %q",
			v.Cluster)
	}
	return nil
}

// decode returns the URL in a token, which must be a call of STS's GetCallerIdentity and nothing else.
func decode(token string) (*url.URL, error) {
	encoded, ok := strings.CutPrefix(token, Prefix)
	if !ok || len(token) > longest {
		return nil, fmt.Errorf("it does not begin with %s or is longer than %d bytes", Prefix, longest)
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return nil, fmt.Errorf("it is not base64url: %w", err)
	}
	u, err := url.Parse(string(text))
	if err != nil {
		return nil, errors.New("it does not hold a URL")
	}
	if !isSTS(u) || u.Path != "" && u.Path != "/" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("its URL is not one of STS")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the parameters of its URL cannot be read")
	}
	want := map[string]string{
		"Action": "GetCallerIdentity", "Version": "2011-06-15", "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
		"X-Amz-SignedHeaders": signedHeaders,
		"X-Amz-Credential":    "", "X-Amz-Date": "", "X-Amz-Expires": "", "X-Amz-Signature": "",
	}
	for name, values := range query {
		if exact, known := want[name]; !known || len(values) != 1 || exact != "" && values[0] != exact {
			return nil, fmt.Errorf("its URL has %s=%q", name, strings.Join(values, " "))
		}
	}
	if len(query) != len(want) {
		return nil, errors.New("its URL lacks parameters of a presigned GetCallerIdentity")
	}
	if n, err := strconv.Atoi(query.Get("X-Amz-Expires")); err != nil || n < 1 || time.Duration(n)*time.Second > lifetime {
		return nil, fmt.Errorf("its X-Amz-Expires is %q, not 1 to %d seconds", query.Get("X-Amz-Expires"),
			int(lifetime.Seconds()))
	}
	return u, nil
}

// isSTS reports whether a URL is of STS, global, regional or (by AWS_ENDPOINT_URL) on loopback.
func isSTS(u *url.URL) bool {
	host := u.Hostname()
	if strings.HasPrefix(host, "sts.") && strings.HasSuffix(host, ".amazonaws.com") || host == "sts.amazonaws.com" {
		return u.Scheme == "https" && u.Port() == ""
	}
	ip, err := netip.ParseAddr(host)
	return u.Scheme == "http" && (host == "localhost" || err == nil && ip.IsLoopback())
}

// scope reads the region and the time of a signature from its parameters.
func (v Verifier) scope(query url.Values) (region string, at time.Time, err error) {
	at, err = time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if err != nil {
		return "", at, fmt.Errorf("its X-Amz-Date is %q", query.Get("X-Amz-Date"))
	}
	parts := strings.Split(query.Get("X-Amz-Credential"), "/") // KEY/DATE/REGION/sts/aws4_request
	if len(parts) != 5 || parts[1] != at.Format("20060102") || parts[3] != "sts" || parts[4] != "aws4_request" {
		return "", at, fmt.Errorf("its X-Amz-Credential is %q", query.Get("X-Amz-Credential"))
	}
	if parts[0] != v.Credentials.AccessKeyID {
		return "", at, fmt.Errorf("its access key %s is not this cluster's", parts[0])
	}
	return parts[2], at, nil
}
