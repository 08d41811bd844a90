// Package ekstoken identifies the callers behind the tokens with which AWS's tools log in to an EKS cluster (`aws eks
// get-token`, aws-iam-authenticator, Terraform's aws_eks_cluster_auth).
//
// Such a token is "k8s-aws-v1." followed by the base64url encoding of a presigned GetCallerIdentity request to STS,
// with the cluster's name in a signed header (kubernetes-sigs/aws-iam-authenticator, README, "API Authorization from
// Outside a Cluster"). EKS forwards the request to STS; here the region's keys identify the signer.
package ekstoken

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/region/awsapi"
)

// Prefix is the prefix of every such token.
const Prefix = "k8s-aws-v1."

const (
	longest       = 4096 // bytes of a token
	clusterHeader = "x-k8s-aws-id"
	signedHeaders = "host;" + clusterHeader
	expires       = 900 // maximum of X-Amz-Expires, in seconds
)

// Caller returns the caller who made a token for a cluster, and an error if the token is not currently valid.
func Caller(ctx context.Context, keys awsapi.Keys, cluster, token string) (awsapi.Caller, error) {
	asked, err := decode(token)
	if err != nil {
		return awsapi.Caller{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, asked.String(), http.NoBody)
	if err != nil {
		return awsapi.Caller{}, fmt.Errorf("its URL: %w", err)
	}
	req.Header.Set(clusterHeader, cluster)
	who, err := keys.CallerOf(req, nil)
	if err != nil {
		return who, fmt.Errorf("%w (it must be signed for cluster %q)", err, cluster)
	}
	return who, nil
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
	return u, check(query)
}

// check returns an error unless the parameters are exactly those of a presigned GetCallerIdentity.
func check(query url.Values) error {
	want := map[string]string{
		"Action": "GetCallerIdentity", "Version": "2011-06-15", "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
		"X-Amz-SignedHeaders": signedHeaders,
		"X-Amz-Credential":    "", "X-Amz-Date": "", "X-Amz-Expires": "", "X-Amz-Signature": "",
	}
	if query.Has("X-Amz-Security-Token") { // of a session
		want["X-Amz-Security-Token"] = ""
	}
	for name, values := range query {
		if exact, known := want[name]; !known || len(values) != 1 || exact != "" && values[0] != exact {
			return fmt.Errorf("its URL has %s=%q", name, strings.Join(values, " "))
		}
	}
	if len(query) != len(want) {
		return errors.New("its URL lacks parameters of a presigned GetCallerIdentity")
	}
	if n, err := strconv.Atoi(query.Get("X-Amz-Expires")); err != nil || n < 1 || n > expires {
		return fmt.Errorf("its X-Amz-Expires is %q, not 1 to %d seconds", query.Get("X-Amz-Expires"), expires)
	}
	if !strings.HasSuffix(query.Get("X-Amz-Credential"), "/sts/aws4_request") {
		return fmt.Errorf("its X-Amz-Credential is %q", query.Get("X-Amz-Credential"))
	}
	return nil
}

// isSTS reports whether a URL belongs to STS: global, regional or (by AWS_ENDPOINT_URL) on loopback.
func isSTS(u *url.URL) bool {
	host := u.Hostname()
	if strings.HasPrefix(host, "sts.") && strings.HasSuffix(host, ".amazonaws.com") || host == "sts.amazonaws.com" {
		return u.Scheme == "https" && u.Port() == ""
	}
	ip, err := netip.ParseAddr(host)
	return u.Scheme == "http" && (host == "localhost" || err == nil && ip.IsLoopback())
}
