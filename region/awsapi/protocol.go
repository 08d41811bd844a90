package awsapi

import (
	"net/http"
	"net/url"
	"strings"
)

// protocol is how a service's requests and answers look (Smithy's names: awsQuery and ec2Query, awsJson1_0 and
// awsJson1_1, restJson1, restXml, rpcv2Cbor).
type protocol int

const (
	protocolQuery protocol = iota
	protocolJSON
	protocolREST
	protocolRESTXML
	protocolCBOR
)

// restXML are the services of AWS that answer in XML without being asked by a form.
var restXML = map[string]bool{"s3": true, "s3express": true, "s3-object-lambda": true, "s3-outposts": true,
	"route53": true, "cloudfront": true}

// protocolOf tells the protocol of a request, also of a service that the region does not have: whoever asks must be
// able to read the refusal. values are the parameters of the URL and of a form.
func protocolOf(service string, req *http.Request, values url.Values) protocol {
	switch {
	case req.Header.Get("Smithy-Protocol") == "rpc-v2-cbor":
		return protocolCBOR
	case req.Header.Get("X-Amz-Target") != "", service == serviceSSM, service == servicePricing:
		return protocolJSON
	case restXML[service]:
		return protocolRESTXML
	case service == "", namespaces[service] != "", values.Get("Action") != "":
		return protocolQuery
	}
	return protocolREST
}

// actionOf names what a request asks for.
func actionOf(p protocol, service string, req *http.Request, values url.Values) string {
	switch p {
	case protocolQuery:
		return values.Get("Action")
	case protocolJSON:
		_, action, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		return action
	case protocolCBOR: // POST /service/SERVICE/operation/ACTION
		return req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	}
	if service == serviceEKS {
		if action := eksAction(req); action != "" {
			return action
		}
	}
	return req.Method + " " + req.URL.Path // REST does not name the action
}

// unserved is the refusal of an action that the region does not have.
func unserved(p protocol, service, action string) *apiError {
	e := failure(http.StatusBadRequest, "UnknownOperationException",
		"The simulated region does not serve "+action+" of "+service)
	switch {
	case service == "":
		e.Message = "The simulated region does not serve " + action + " and cannot tell of which service it is"
	case action == "":
		e.Message = "The request to " + service + " names no action"
	}
	switch p {
	case protocolQuery:
		e.Code = "InvalidAction"
	case protocolRESTXML:
		e.Status, e.Code = http.StatusNotImplemented, "NotImplemented"
	}
	return e
}

// cborText is a text string of RFC 8949, section 3.1: major type 3 and a length of four bytes.
func cborText(s string) string {
	n := len(s)
	return string([]byte{0x7a, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + s
}

// writeCBORError tells a failure as Smithy's RPC v2 CBOR has it: a map of two texts.
func writeCBORError(w http.ResponseWriter, requestID string, e *apiError) {
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	header(w, "application/cbor", requestID, e.Status)
	_, _ = w.Write([]byte("\xa2" + cborText("__type") + cborText(e.Code) + cborText("message") + cborText(e.Message)))
}
