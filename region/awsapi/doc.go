// Package awsapi is the HTTP interface of a simulated region: it speaks the wire protocols of EC2, EC2 Auto Scaling,
// IAM, STS, SSM, SQS, EKS, ELB (version 2), CloudWatch Logs, Price List and ARC zonal shift on one loopback port, so
// that any AWS client runs against the simulation with
//
//	AWS_ENDPOINT_URL=http://127.0.0.1:PORT AWS_REGION=<the region's name> AWS_ACCESS_KEY_ID=any \
//	AWS_SECRET_ACCESS_KEY=any
//
// The package only translates between the wire and region.Region, whose methods implement each call. An operation is
// a function from the SDK's input structure of its call to the SDK's output structure; decode.go and encode.go
// translate these by reflection and list the exceptions from each service's naming rules. The credential scope of a
// request's Authorization header names the service (…/REGION/SERVICE/aws4_request); without it, X-Amz-Target, Host
// and path determine the service.
//
// Requests signed with keys that IAM created have their signatures verified, and package iam evaluates each call
// against the policies of the key's owner; authorize.go defines the permissions that a call needs. Any other key is
// the administrator's, who may do everything, unless Options.Credentials sets the administrator's key.
//
//	EC2 (2016-11-15), IAM (2010-05-08), STS (2011-06-15),
//	ELB (2015-12-01), EC2 Auto Scaling (2011-01-01)       query protocol: form in, XML out
//	SSM, Pricing, CloudWatch Logs                         JSON 1.1, X-Amz-Target
//	SQS                                                   JSON 1.0, and the query protocol (2012-11-05) of older clients
//	EKS, ARC zonal shift                                  REST and JSON
//
// The table in operations.go lists the supported calls; any other gets InvalidAction with its name.
//
// Every call passes the region's admission (throttling, injected faults and delays, the log of calls). Calls without
// a counterpart in AWS, which observe and disturb the simulation, are below /_nodeless/ as JSON, for callers with
// Options.AdminToken; see admin.go.
//
// # Safety
//
// Only loopback clients may connect: Host must name loopback (no DNS rebinding), and so must any Origin header (no
// cross-site requests from a browser); a request that Sec-Fetch-Site marks as cross-site is refused. Bodies are
// bounded, and a panic becomes InternalError and a log entry.
package awsapi
