package awsapi

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/region"
)

// defaultVisibility is how long SQS hides a received message if neither queue nor caller says otherwise.
const defaultVisibility = 30 * time.Second

// nothing is the answer of calls that return nothing.
type nothing struct{}

// sqsJSON is an SQS call in JSON 1.0.
func sqsJSON[Q any](do func(*call, Q) (any, error)) operation {
	return func(c *call) (any, error) {
		var q Q
		if err := readJSON(c.body, &q); err != nil {
			return nil, err
		}
		answer, err := do(c, q)
		return answer, sqsJSONError(err)
	}
}

// sqsQuery is the same call in the query protocol, whose parameters read picks from the form.
func sqsQuery[Q any](read func(*call) Q, do func(*call, Q) (any, error)) operation {
	return func(c *call) (any, error) {
		q := read(c)
		if err := c.form.fail(); err != nil {
			return nil, err
		}
		answer, err := do(c, q)
		if _, empty := answer.(nothing); empty {
			return nil, err
		}
		return answer, err
	}
}

// sqsJSONError gives an error the code that SQS uses in JSON; the old code goes along in a header.
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
			return failure(e.Status, short, e.Message)
		}
	}
	return e
}

func sqsFailure(code, message string) *apiError {
	return failure(http.StatusBadRequest, "AWS.SimpleQueueService."+code, message)
}

// queueName is the queue a URL means: host and account may be any.
func queueName(queueURL string) (string, error) {
	u, err := url.Parse(queueURL)
	if err != nil || strings.Trim(u.Path, "/") == "" {
		return "", failure(http.StatusBadRequest, "InvalidAddress",
			"The address "+queueURL+" is not valid for this endpoint: use the QueueUrl that GetQueueUrl answers.")
	}
	return path.Base(u.Path), nil
}

type queueURLRequest struct{ QueueName string }

func queueURLForm(c *call) queueURLRequest {
	return queueURLRequest{QueueName: c.form.str("QueueName")}
}

func getQueueURL(c *call, q queueURLRequest) (any, error) {
	if _, err := c.region.Queue(q.QueueName); err != nil {
		return nil, err
	}
	return queueURLAnswer{QueueURL: c.baseURL + "/" + region.AccountID + "/" + q.QueueName}, nil
}

type sendRequest struct {
	QueueURL    string `json:"QueueUrl"`
	MessageBody string
}

func sendForm(c *call) sendRequest {
	return sendRequest{QueueURL: c.queueURL(), MessageBody: c.form.str("MessageBody")}
}

func sendMessage(c *call, q sendRequest) (any, error) {
	name, err := queueName(q.QueueURL)
	if err != nil {
		return nil, err
	}
	if q.MessageBody == "" {
		return nil, failure(http.StatusBadRequest, "MissingParameter", "The request must contain the parameter MessageBody.")
	}
	id, err := c.region.SendMessage(name, q.MessageBody)
	return sentAnswer{MessageID: id, BodyMD5: checksum(q.MessageBody)}, err
}

func receiveMessage(c *call, q receiveRequest) (any, error) {
	name, err := queueName(q.QueueURL)
	if err != nil {
		return nil, err
	}
	most, visibilitySeconds, waitSeconds, err := q.validate()
	if err != nil {
		return nil, err
	}
	visibility := defaultVisibility
	if visibilitySeconds >= 0 {
		visibility = time.Duration(visibilitySeconds) * time.Second
	}
	found, err := c.region.PollMessages(c.ctx, name, most, visibility, time.Duration(max(waitSeconds, 0))*time.Second)
	if err != nil {
		return nil, err
	}
	wanted := slices.Concat(q.AttributeNames, q.MessageSystemAttributeNames)
	var answer messagesAnswer
	for _, m := range found {
		attributes := chosen(wanted, []nameValueXML{
			{"SenderId", region.AccountID},
			{"SentTimestamp", strconv.FormatInt(m.SentAt.UnixMilli(), 10)},
			{"ApproximateReceiveCount", strconv.Itoa(m.Deliveries)},
		})
		answer.Messages = append(answer.Messages,
			messageAnswer{
				MessageID: m.ID, ReceiptHandle: m.Receipt, BodyMD5: checksum(m.Body), Body: m.Body,
				Attributes: byName(attributes), AttributeList: attributes,
			})
	}
	return answer, nil
}

// chosen are the attributes that a caller asked for.
func chosen(wanted []string, all []nameValueXML) []nameValueXML {
	var out []nameValueXML
	for _, a := range all {
		if slices.Contains(wanted, a.Name) || slices.Contains(wanted, "All") {
			out = append(out, a)
		}
	}
	return out
}

func byName(list []nameValueXML) map[string]string {
	m := make(map[string]string, len(list))
	for _, a := range list {
		m[a.Name] = a.Value
	}
	return m
}

type attributesRequest struct {
	QueueURL       string `json:"QueueUrl"`
	AttributeNames []string
}

func attributesForm(c *call) attributesRequest {
	return attributesRequest{QueueURL: c.queueURL(), AttributeNames: c.form.strs("AttributeName")}
}

func getQueueAttributes(c *call, q attributesRequest) (any, error) {
	name, err := queueName(q.QueueURL)
	if err != nil {
		return nil, err
	}
	visible, hidden, err := c.region.QueueDepth(name)
	if err != nil {
		return nil, err
	}
	list := chosen(q.AttributeNames, []nameValueXML{
		{"ApproximateNumberOfMessages", strconv.Itoa(visible)},
		{"ApproximateNumberOfMessagesNotVisible", strconv.Itoa(hidden)},
		{"QueueArn", "arn:aws:sqs:" + c.region.Name() + ":" + region.AccountID + ":" + name},
		{"VisibilityTimeout", strconv.Itoa(int(defaultVisibility.Seconds()))},
		{"ReceiveMessageWaitTimeSeconds", "0"},
	})
	return attributesAnswer{Attributes: byName(list), AttributeList: list}, nil
}
