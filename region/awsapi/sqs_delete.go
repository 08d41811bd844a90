package awsapi

import (
	"net/http"
	"strconv"
)

type deleteRequest struct {
	QueueURL      string `json:"QueueUrl"`
	ReceiptHandle string
}

func deleteForm(c *call) deleteRequest {
	return deleteRequest{QueueURL: c.queueURL(), ReceiptHandle: c.form.str("ReceiptHandle")}
}

func deleteMessage(c *call, q deleteRequest) (any, error) {
	name, err := queueName(q.QueueURL)
	if err != nil {
		return nil, err
	}
	if q.ReceiptHandle == "" {
		return nil, failure(http.StatusBadRequest, "MissingParameter",
			"The request must contain the parameter ReceiptHandle.")
	}
	return nothing{}, c.region.DeleteMessage(name, q.ReceiptHandle)
}

type deleteEntry struct {
	ID            string `json:"Id"`
	ReceiptHandle string
}

type deleteBatchRequest struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []deleteEntry
}

func deleteBatchForm(c *call) deleteBatchRequest {
	q := deleteBatchRequest{QueueURL: c.queueURL()}
	for _, e := range c.form.each("DeleteMessageBatchRequestEntry") {
		q.Entries = append(q.Entries, deleteEntry{ID: e.str("Id"), ReceiptHandle: e.str("ReceiptHandle")})
	}
	return q
}

type batchResult struct {
	ID string `json:"Id" xml:"Id"`
}

type batchFailure struct {
	ID          string `json:"Id" xml:"Id"`
	Code        string `json:"Code" xml:"Code"`
	Message     string `json:"Message" xml:"Message"`
	SenderFault bool   `json:"SenderFault" xml:"SenderFault"`
}

type deleteBatchAnswer struct {
	Successful []batchResult  `json:"Successful" xml:"DeleteMessageBatchResultEntry"`
	Failed     []batchFailure `json:"Failed,omitempty" xml:"BatchResultErrorEntry"`
}

// maxEntries is the largest batch of SQS.
const maxEntries = 10

func deleteMessageBatch(c *call, q deleteBatchRequest) (any, error) {
	name, err := queueName(q.QueueURL)
	if err != nil {
		return nil, err
	}
	switch {
	case len(q.Entries) == 0:
		return nil, sqsFailure("EmptyBatchRequest",
			"There should be at least one DeleteMessageBatchRequestEntry in the request.")
	case len(q.Entries) > maxEntries:
		return nil, sqsFailure("TooManyEntriesInBatchRequest",
			"Maximum number of entries per request are 10. You have sent "+strconv.Itoa(len(q.Entries))+".")
	}
	if _, err := c.region.Queue(name); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range q.Entries {
		if seen[e.ID] {
			return nil, sqsFailure("BatchEntryIdsNotDistinct", "Id "+e.ID+" repeated.")
		}
		seen[e.ID] = true
	}
	answer := deleteBatchAnswer{Successful: []batchResult{}}
	for _, e := range q.Entries {
		if e.ReceiptHandle == "" {
			answer.Failed = append(answer.Failed, batchFailure{
				ID: e.ID, Code: "ReceiptHandleIsInvalid",
				Message: "The receipt handle is empty.", SenderFault: true,
			})
			continue
		}
		if err := c.region.DeleteMessage(name, e.ReceiptHandle); err != nil {
			return nil, err
		}
		answer.Successful = append(answer.Successful, batchResult{ID: e.ID})
	}
	return answer, nil
}
