// Package awsapi is the HTTP face of a simulated region: it speaks the wire protocols of EC2, IAM, STS, SSM, SQS, EKS,
// ELB (version 2), CloudWatch Logs and Price List on one loopback port, so that any AWS client runs against the
// simulation with
//
//	AWS_ENDPOINT_URL=http://127.0.0.1:PORT AWS_REGION=<the region's name> AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
//
// The package only translates between wire and region.Region, whose methods carry the meaning of each call. An
// operation is a function from the SDK's input structure of its call to the SDK's output structure; decode.go and
// encode.go translate these by reflection and list the exceptions from each service's rules of naming. A request
// says which service it wants by the credential scope of its Authorization header (…/REGION/SERVICE/aws4_request);
// X-Amz-Target, Host and path help where that is absent.
//
// Signatures with keys that IAM made are verified, and each call of their owners is decided by package iam on the
// policies that they have; authorize.go says what a call needs to be allowed. Any other key is the administrator's, who
// may do everything, unless Options.Credentials say which one is.
//
//	EC2 (2016-11-15), IAM (2010-05-08), STS (2011-06-15),
//	ELB (2015-12-01)                                      query protocol: form in, XML out
//	SSM, Pricing, CloudWatch Logs                         JSON 1.1, X-Amz-Target
//	SQS                                                   JSON 1.0, and the query protocol (2012-11-05) of older clients
//	EKS                                                   REST and JSON
//
// The table in operations.go lists the calls that are answered; any other gets InvalidAction with its name.
//
// Every call passes the region's admission (throttling, injected faults and delays, the log of calls). What AWS does
// not have, to watch and disturb the simulation, is below /_nodeless/ as JSON, for callers with Options.AdminToken; see
// admin.go.
//
// # Safety
//
// Only loopback may talk to it: Host must name loopback (no DNS rebinding) and an Origin header must too (no cross-site
// requests from a browser); a request that Sec-Fetch-Site says comes from another site is refused. Bodies are bounded,
// and a panic becomes InternalError and a log entry.
package awsapi
