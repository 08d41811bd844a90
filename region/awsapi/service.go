package awsapi

import (
	"net/http"
	"net/url"
	"strings"
)

// The services behind the port, by their names in SigV4.
const (
	serviceEC2     = "ec2"
	serviceIAM     = "iam"
	serviceSTS     = "sts"
	serviceSSM     = "ssm"
	serviceSQS     = "sqs"
	serviceEKS     = "eks"
	serviceELB     = "elasticloadbalancing" // version 2 only
	serviceLogs    = "logs"
	servicePricing = "pricing"
	serviceScaling = "autoscaling"
	serviceARC     = "arc-zonal-shift"
)

// scope is the region and the service for which a request is signed.
type scope struct{ region, service string }

// credentialScope reads the scope from Authorization or from the X-Amz-Credential parameter of a presigned URL. found
// is false if the request is unsigned.
func credentialScope(req *http.Request) (s scope, found bool, err error) {
	credential := req.URL.Query().Get("X-Amz-Credential")
	if h := req.Header.Get("Authorization"); h != "" {
		rest, ok := strings.CutPrefix(h, "AWS4-HMAC-SHA256")
		if !ok {
			return s, true, failure(http.StatusBadRequest, "IncompleteSignature",
				"Authorization header must begin with AWS4-HMAC-SHA256")
		}
		for _, field := range strings.Split(rest, ",") {
			if c, ok := strings.CutPrefix(strings.TrimSpace(field), "Credential="); ok {
				credential = c
			}
		}
		if credential == "" {
			return s, true, failure(http.StatusBadRequest, "IncompleteSignature",
				"Authorization header requires 'Credential' parameter")
		}
	}
	if credential == "" {
		return s, false, nil
	}
	parts := strings.Split(credential, "/")
	if len(parts) < 5 || parts[len(parts)-1] != "aws4_request" {
		return s, true, failure(http.StatusBadRequest, "IncompleteSignature",
			"Credential must have the form KEY/DATE/REGION/SERVICE/aws4_request")
	}
	n := len(parts)
	return scope{region: parts[n-3], service: parts[n-2]}, true, nil
}

// targets maps the prefix of X-Amz-Target to its service.
var targets = map[string]string{
	"AmazonSSM":           serviceSSM,
	"AmazonSQS":           serviceSQS,
	"AWSPriceListService": servicePricing,
	"Logs_20140328":       serviceLogs,
}

// versions maps the API version of a query-protocol form to its service.
var versions = map[string]string{
	"2016-11-15": serviceEC2,
	"2010-05-08": serviceIAM,
	"2011-06-15": serviceSTS,
	"2012-11-05": serviceSQS,
	"2015-12-01": serviceELB,
	"2011-01-01": serviceScaling,
}

// guessService determines the service of a request without a credential, by target, form version, path or host; "" if
// none of these tells.
func guessService(req *http.Request, values url.Values) string {
	if prefix, _, ok := strings.Cut(req.Header.Get("X-Amz-Target"), "."); ok {
		return targets[prefix]
	}
	if s := versions[values.Get("Version")]; s != "" {
		return s
	}
	if action, _ := eksRequest(req); action != "" {
		return serviceEKS
	}
	if action, _ := arcRequest(req); action != "" {
		return serviceARC
	}
	first, _, _ := strings.Cut(req.Host, ".")
	switch first {
	case serviceEC2, serviceIAM, serviceSTS, serviceSSM, serviceSQS, serviceEKS, serviceELB, serviceLogs, servicePricing,
		serviceScaling, serviceARC:
		return first
	}
	return ""
}
