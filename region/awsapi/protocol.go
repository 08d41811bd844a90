package awsapi

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/nodeless/nodeless/region"
)

// protocol is the format of a service's requests and responses (Smithy's names: awsQuery and ec2Query, awsJson1_0 and
// awsJson1_1, restJson1, restXml, rpcv2Cbor).
type protocol int

const (
	protocolQuery protocol = iota
	protocolJSON
	protocolREST
	protocolRESTXML
	protocolCBOR
)

// restXML lists the services that respond in XML although their requests are not forms.
var restXML = map[string]bool{
	"s3": true, "s3express": true, "s3-object-lambda": true, "s3-outposts": true,
	"route53": true, "cloudfront": true,
}

// protocolOf returns the protocol of a request, even to a service that the region does not serve: the client must be
// able to read the error. values are the parameters of the URL and of a form.
func protocolOf(service string, req *http.Request, values url.Values) protocol {
	switch {
	case req.Header.Get("Smithy-Protocol") == "rpc-v2-cbor":
		return protocolCBOR
	case req.Header.Get("X-Amz-Target") != "", service == serviceSSM, service == servicePricing,
		service == serviceLogs:
		return protocolJSON
	case restXML[service]:
		return protocolRESTXML
	case service == "", namespaces[service] != "", values.Get("Action") != "":
		return protocolQuery
	}
	return protocolREST
}

// restRequests derive the operation of a service's REST request, and the members of its input that are in the path
// and the query.
var restRequests = map[string]func(*http.Request) (action string, members url.Values){
	serviceEKS: eksRequest, serviceARC: arcRequest,
}

// actionOf returns the action of a request.
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
	if read := restRequests[service]; read != nil {
		if action, _ := read(req); action != "" {
			return action
		}
	}
	return req.Method + " " + req.URL.Path // REST requests do not name the action
}

// unserved returns the error for an action that the region does not serve.
func unserved(c *call) *region.APIError {
	e := failure(http.StatusBadRequest, "UnknownOperationException",
		"The simulated region does not serve "+c.action+" of "+c.service)
	switch {
	case c.service == "":
		e.Message = "The simulated region does not serve " + c.action + " and cannot tell of which service it is"
	case c.action == "":
		e.Message = "The request to " + c.service + " names no action"
	}
	switch c.protocol {
	case protocolQuery:
		e.Code = "InvalidAction"
	case protocolRESTXML:
		e.HTTPStatus, e.Code = http.StatusNotImplemented, "NotImplemented"
	}
	return e
}

// cborText encodes a text string as in RFC 8949, section 3.1: major type 3 and a length of four bytes.
func cborText(s string) string {
	n := len(s)
	return string([]byte{0x7a, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + s
}

// writeCBORError writes an error as in Smithy's RPC v2 CBOR: a map of two texts.
func writeCBORError(w http.ResponseWriter, requestID string, e *region.APIError) {
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	header(w, "application/cbor", requestID, e.HTTPStatus)
	_, _ = w.Write([]byte("\xa2" + cborText("__type") + cborText(e.Code) + cborText("message") + cborText(e.Message)))
}

// jsonContent is the content type of each JSON service's responses.
var jsonContent = map[string]string{
	serviceSSM:     "application/x-amz-json-1.1",
	servicePricing: "application/x-amz-json-1.1",
	serviceSQS:     "application/x-amz-json-1.0",
	serviceEKS:     "application/json",
	serviceARC:     "application/json",
	serviceLogs:    "application/x-amz-json-1.1",
}

// queryCodes maps SQS's error codes to those from before it spoke JSON; clients still compare the old ones.
var queryCodes = map[string]string{
	"QueueDoesNotExist":            "AWS.SimpleQueueService.NonExistentQueue",
	"ReceiptHandleIsInvalid":       "ReceiptHandleIsInvalid",
	"EmptyBatchRequest":            "AWS.SimpleQueueService.EmptyBatchRequest",
	"TooManyEntriesInBatchRequest": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
	"BatchEntryIdsNotDistinct":     "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
}

func writeJSONError(w http.ResponseWriter, service, requestID string, e *region.APIError) {
	kind := e.Code
	w.Header().Set("X-Amzn-Errortype", e.Code)
	if service == serviceSQS {
		kind = "com.amazonaws.sqs#" + e.Code
		if old := queryCodes[e.Code]; old != "" {
			w.Header().Set("X-Amzn-Query-Error", old+";Sender")
		}
	}
	body, err := json.Marshal(map[string]string{"__type": kind, "message": e.Message})
	if err != nil {
		body = []byte("{}")
	}
	header(w, cmp.Or(jsonContent[service], "application/json"), requestID, e.HTTPStatus)
	_, _ = w.Write(body)
}

// writeXMLError writes an error in the service's format.
func writeXMLError(w http.ResponseWriter, service, requestID string, e *region.APIError) {
	header(w, "text/xml;charset=UTF-8", requestID, e.HTTPStatus)
	fault := "<Code>" + escape(e.Code) + "</Code><Message>" + escape(e.Message) + "</Message>"
	switch service {
	case serviceEC2, "":
		_, _ = fmt.Fprintf(w, "%s<Response><Errors><Error>%s</Error></Errors><RequestID>%s</RequestID></Response>",
			xml.Header, fault, requestID)
		return
	case "s3":
		_, _ = fmt.Fprintf(w, "%s<Error>%s<RequestId>%s</RequestId></Error>", xml.Header, fault, requestID)
		return
	}
	kind := "Sender"
	if e.HTTPStatus >= 500 {
		kind = "Receiver"
	}
	_, _ = fmt.Fprintf(w, "%s<ErrorResponse xmlns=%q><Error><Type>%s</Type>%s</Error>"+
		"<RequestId>%s</RequestId></ErrorResponse>",
		xml.Header, cmp.Or(namespaces[service], "http://"+service+".amazonaws.com/doc/"), kind, fault, requestID)
}

func header(w http.ResponseWriter, contentType, requestID string, status int) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(status)
}
