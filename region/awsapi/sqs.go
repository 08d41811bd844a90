package awsapi

import (
	"crypto/md5" //nolint:gosec // SQS defines its checksums as MD5; clients verify them
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/nodeless/nodeless/region"
)

// defaultVisibility is how long SQS hides a received message unless the queue or the caller sets it.
const defaultVisibility = 30 * time.Second

// checksum returns SQS's checksum of a message body, which clients verify.
func checksum(body *string) *string {
	sum := md5.Sum([]byte(*body)) //nolint:gosec // as above
	return new(hex.EncodeToString(sum[:]))
}

// sqsJSONError gives an error the code that SQS uses in JSON; a header carries the old code.
func sqsJSONError(err error) error {
	if err == nil {
		return nil
	}
	e, ok := asAPIError(err)
	if !ok {
		return err
	}
	for short, old := range queryCodes {
		if e.Code == old {
			return failure(e.HTTPStatus, short, e.Message)
		}
	}
	return e
}

func sqsFailure(code, message string) *region.APIError {
	return failure(http.StatusBadRequest, "AWS.SimpleQueueService."+code, message)
}

// queueName returns the queue in a URL, ignoring host and account.
func queueName(queueURL *string) (string, error) {
	u, err := url.Parse(aws.ToString(queueURL))
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return "", failure(http.StatusBadRequest, "InvalidAddress", "The address "+aws.ToString(queueURL)+
			" is not valid for this endpoint: use the QueueUrl that GetQueueUrl answers.")
	}
	return path.Base(u.Path), nil
}

func getQueueURL(c *call, in *sqs.GetQueueUrlInput) (*sqs.GetQueueUrlOutput, error) {
	name := aws.ToString(in.QueueName)
	_, err := c.region.Queue(name)
	return &sqs.GetQueueUrlOutput{QueueUrl: new(c.baseURL + "/" + region.AccountID + "/" + name)}, err
}

func sendMessage(c *call, in *sqs.SendMessageInput) (*sqs.SendMessageOutput, error) {
	name, err := queueName(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if aws.ToString(in.MessageBody) == "" {
		return nil, failure(http.StatusBadRequest, "MissingParameter", "The request must contain the parameter MessageBody.")
	}
	id, err := c.region.SendMessage(name, *in.MessageBody)
	return &sqs.SendMessageOutput{MessageId: &id, MD5OfMessageBody: checksum(in.MessageBody)}, err
}

// receiveInput is sqs.ReceiveMessageInput with optional numbers: hiding a message for 0 seconds differs from hiding
// it for the queue's default.
type receiveInput struct {
	QueueUrl                                                *string //nolint:revive,staticcheck // SQS's name
	MaxNumberOfMessages, VisibilityTimeout, WaitTimeSeconds *int32
	AttributeNames, MessageSystemAttributeNames             []string
}

func receiveMessage(c *call, in *receiveInput) (*sqs.ReceiveMessageOutput, error) {
	name, err := queueName(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name     string
		given    *int32
		low, top int32
	}{
		{"MaxNumberOfMessages", in.MaxNumberOfMessages, 1, 10},
		{"VisibilityTimeout", in.VisibilityTimeout, 0, 43200},
		{"WaitTimeSeconds", in.WaitTimeSeconds, 0, 20},
	} {
		if p.given != nil && (*p.given < p.low || *p.given > p.top) {
			return nil, failure(http.StatusBadRequest, "InvalidParameterValue", fmt.Sprintf(
				"Value %d for parameter %s is invalid. Reason: Must be between %d and %d.", *p.given, p.name, p.low, p.top))
		}
	}
	number, visibility := 1, defaultVisibility
	if in.MaxNumberOfMessages != nil {
		number = int(*in.MaxNumberOfMessages)
	}
	if in.VisibilityTimeout != nil {
		visibility = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	found, err := c.region.PollMessages(c.ctx, name, number, visibility,
		time.Duration(aws.ToInt32(in.WaitTimeSeconds))*time.Second)
	out := &sqs.ReceiveMessageOutput{}
	for _, m := range found {
		out.Messages = append(out.Messages, types.Message{
			MessageId: &m.ID, ReceiptHandle: &m.Receipt, MD5OfBody: checksum(&m.Body), Body: &m.Body,
			Attributes: selectAttributes(slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames), map[string]string{
				"SenderId": region.AccountID, "SentTimestamp": strconv.FormatInt(m.SentAt.UnixMilli(), 10),
				"ApproximateReceiveCount": strconv.Itoa(m.Deliveries),
			}),
		})
	}
	return out, err
}

// selectAttributes returns the attributes that a caller requested; nil if there are none.
func selectAttributes(wanted []string, attributes map[string]string) map[string]string {
	if !slices.Contains(wanted, "All") {
		maps.DeleteFunc(attributes, func(name, _ string) bool { return !slices.Contains(wanted, name) })
	}
	if len(attributes) == 0 {
		return nil
	}
	return attributes
}

func getQueueAttributes(c *call, in *sqs.GetQueueAttributesInput) (*sqs.GetQueueAttributesOutput, error) {
	name, err := queueName(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	visible, hidden, err := c.region.QueueDepth(name)
	return &sqs.GetQueueAttributesOutput{Attributes: selectAttributes(stringsOf(in.AttributeNames), map[string]string{
		"ApproximateNumberOfMessages":           strconv.Itoa(visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(hidden),
		"QueueArn":                              "arn:aws:sqs:" + c.region.Name() + ":" + region.AccountID + ":" + name,
		"VisibilityTimeout":                     strconv.Itoa(int(defaultVisibility.Seconds())),
		"ReceiveMessageWaitTimeSeconds":         "0",
	})}, err
}

func deleteMessage(c *call, in *sqs.DeleteMessageInput) (*sqs.DeleteMessageOutput, error) {
	name, err := queueName(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if aws.ToString(in.ReceiptHandle) == "" {
		return nil, failure(http.StatusBadRequest, "MissingParameter",
			"The request must contain the parameter ReceiptHandle.")
	}
	return &sqs.DeleteMessageOutput{}, c.region.DeleteMessage(name, *in.ReceiptHandle)
}

// maxEntries is SQS's maximum batch size.
const maxEntries = 10

func deleteMessageBatch(c *call, in *sqs.DeleteMessageBatchInput) (*sqs.DeleteMessageBatchOutput, error) {
	name, err := queueName(in.QueueUrl)
	if err != nil {
		return nil, err
	}
	switch {
	case len(in.Entries) == 0:
		return nil, sqsFailure("EmptyBatchRequest",
			"There should be at least one DeleteMessageBatchRequestEntry in the request.")
	case len(in.Entries) > maxEntries:
		return nil, sqsFailure("TooManyEntriesInBatchRequest",
			"Maximum number of entries per request are 10. You have sent "+strconv.Itoa(len(in.Entries))+".")
	}
	if _, err := c.region.Queue(name); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range in.Entries {
		if id := aws.ToString(e.Id); seen[id] {
			return nil, sqsFailure("BatchEntryIdsNotDistinct", "Id "+id+" repeated.")
		}
		seen[aws.ToString(e.Id)] = true
	}
	out := &sqs.DeleteMessageBatchOutput{Successful: []types.DeleteMessageBatchResultEntry{}}
	for _, e := range in.Entries {
		if aws.ToString(e.ReceiptHandle) == "" {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{
				Id: e.Id, Code: new("ReceiptHandleIsInvalid"), Message: new("The receipt handle is empty."), SenderFault: true,
			})
			continue
		}
		if err := c.region.DeleteMessage(name, *e.ReceiptHandle); err != nil {
			return nil, err
		}
		out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: e.Id})
	}
	return out, nil
}
