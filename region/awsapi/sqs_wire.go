package awsapi

import (
	"crypto/md5" //nolint:gosec // SQS defines its checksums as MD5; clients verify them
	"encoding/hex"
)

// SQS speaks two protocols. The shapes below carry the names of both: JSON 1.0 by the json tags, the query protocol of
// older clients by the xml tags.

// checksum returns SQS's checksum of a body, which clients compare.
func checksum(body string) string {
	sum := md5.Sum([]byte(body)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

type queueURLAnswer struct {
	QueueURL string `json:"QueueUrl" xml:"QueueUrl"`
}

type sentAnswer struct {
	MessageID string `json:"MessageId" xml:"MessageId"`
	BodyMD5   string `json:"MD5OfMessageBody" xml:"MD5OfMessageBody"`
}

type messageAnswer struct {
	MessageID     string            `json:"MessageId" xml:"MessageId"`
	ReceiptHandle string            `json:"ReceiptHandle" xml:"ReceiptHandle"`
	BodyMD5       string            `json:"MD5OfBody" xml:"MD5OfBody"`
	Body          string            `json:"Body" xml:"Body"`
	Attributes    map[string]string `json:"Attributes,omitempty" xml:"-"`
	AttributeList []nameValueXML    `json:"-" xml:"Attribute"`
}

type messagesAnswer struct {
	Messages []messageAnswer `json:"Messages,omitempty" xml:"Message"`
}

type attributesAnswer struct {
	Attributes    map[string]string `json:"Attributes,omitempty" xml:"-"`
	AttributeList []nameValueXML    `json:"-" xml:"Attribute"`
}

type nameValueXML struct {
	Name  string `xml:"Name"`
	Value string `xml:"Value"`
}

// receiveRequest is ReceiveMessage's input in either protocol. Attribute names came under three names over the years.
type receiveRequest struct {
	QueueURL                    string   `json:"QueueUrl"`
	MaxNumberOfMessages         *int     `json:"MaxNumberOfMessages"`
	VisibilityTimeout           *int     `json:"VisibilityTimeout"`
	WaitTimeSeconds             *int     `json:"WaitTimeSeconds"`
	AttributeNames              []string `json:"AttributeNames"`
	MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames"`
}

// optionalInteger is nil for a parameter that is absent.
func (f form) optionalInteger(name string) *int {
	if !f.has(name) {
		return nil
	}
	n := f.integer(name)
	return &n
}

func (c *call) receiveForm() receiveRequest {
	f := c.form
	return receiveRequest{
		QueueURL: c.queueURL(), MaxNumberOfMessages: f.optionalInteger("MaxNumberOfMessages"),
		VisibilityTimeout: f.optionalInteger("VisibilityTimeout"), WaitTimeSeconds: f.optionalInteger("WaitTimeSeconds"),
		AttributeNames:              f.strs("AttributeName"),
		MessageSystemAttributeNames: f.strs("MessageSystemAttributeName"),
	}
}

// queueURL is the queue of a query request: a parameter, or the path that older clients post to.
func (c *call) queueURL() string {
	if u := c.form.str("QueueUrl"); u != "" {
		return u
	}
	return c.baseURL + c.path
}

// validate checks the bounds SQS sets, and fills in its defaults: 1 message; -1 (the queue's own) visibility and wait.
func (q receiveRequest) validate() (most, visibilitySeconds, waitSeconds int, err error) {
	most, visibilitySeconds, waitSeconds = 1, -1, -1
	for _, p := range []struct {
		name     string
		given    *int
		into     *int
		low, top int
	}{
		{"MaxNumberOfMessages", q.MaxNumberOfMessages, &most, 1, 10},
		{"VisibilityTimeout", q.VisibilityTimeout, &visibilitySeconds, 0, 43200},
		{"WaitTimeSeconds", q.WaitTimeSeconds, &waitSeconds, 0, 20},
	} {
		if p.given == nil {
			continue
		}
		if *p.given < p.low || *p.given > p.top {
			return 0, 0, 0, outOfRange(p.name, *p.given, p.low, p.top)
		}
		*p.into = *p.given
	}
	return most, visibilitySeconds, waitSeconds, nil
}
