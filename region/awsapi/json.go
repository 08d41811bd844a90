package awsapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
)

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
