package awsapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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
var restXML = map[string]bool{
	"s3": true, "s3express": true, "s3-object-lambda": true, "s3-outposts": true,
	"route53": true, "cloudfront": true,
}

// protocolOf returns the protocol of a request, also of a service that the region does not have: whoever asks must be
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

// writeCBORError writes a failure in the form of Smithy's RPC v2 CBOR: a map of two texts.
func writeCBORError(w http.ResponseWriter, requestID string, e *apiError) {
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	header(w, "application/cbor", requestID, e.Status)
	_, _ = w.Write([]byte("\xa2" + cborText("__type") + cborText(e.Code) + cborText("message") + cborText(e.Message)))
}

// jsonContent is the content type of each JSON service's answers.
var jsonContent = map[string]string{
	serviceSSM:     "application/x-amz-json-1.1",
	servicePricing: "application/x-amz-json-1.1",
	serviceSQS:     "application/x-amz-json-1.0",
	serviceEKS:     "application/json",
}

// queryCodes are the codes SQS had before it spoke JSON; clients still compare them.
var queryCodes = map[string]string{
	"QueueDoesNotExist":            "AWS.SimpleQueueService.NonExistentQueue",
	"ReceiptHandleIsInvalid":       "ReceiptHandleIsInvalid",
	"EmptyBatchRequest":            "AWS.SimpleQueueService.EmptyBatchRequest",
	"TooManyEntriesInBatchRequest": "AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
	"BatchEntryIdsNotDistinct":     "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
}

func readJSON(body []byte, v any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return failure(http.StatusBadRequest, "SerializationException",
			fmt.Sprintf("the request body cannot be read: %v", err))
	}
	return nil
}

func writeJSON(w http.ResponseWriter, service, requestID string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	header(w, jsonContent[service], requestID, http.StatusOK)
	_, _ = w.Write(body)
	return nil
}

func writeJSONError(w http.ResponseWriter, service, requestID string, e *apiError) {
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
	header(w, cmp.Or(jsonContent[service], "application/json"), requestID, e.Status)
	_, _ = w.Write(body)
}
