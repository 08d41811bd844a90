package awsapi

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"net/http"
	"time"
)

// namespaces of the query services' answers.
var namespaces = map[string]string{
	serviceEC2: "http://ec2.amazonaws.com/doc/2016-11-15/",
	serviceIAM: "https://iam.amazonaws.com/doc/2010-05-08/",
	serviceSTS: "https://sts.amazonaws.com/doc/2011-06-15/",
	serviceSQS: "http://queue.amazonaws.com/doc/2012-11-05/",
}

// set is a list as EC2 writes it. Unlike a plain slice it leaves an empty element, as EC2 does, when it holds nothing.
type set[T any] struct {
	Items []T `xml:"item"`
}

func setOf[S, T any](list []S, f func(S) T) set[T] {
	out := set[T]{}
	for _, v := range list {
		out.Items = append(out.Items, f(v))
	}
	return out
}

// list is what the set holds, never nil.
func (s set[T]) list() []T { return append([]T{}, s.Items...) }

// members is a list as IAM writes it.
type members[T any] struct {
	Items []T `xml:"member"`
}

// returned is the answer of EC2 calls that return nothing else.
type returned struct {
	Return bool `xml:"return"`
}

// stamp is a time as the XML services write it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// content is the XML inside v, without an element around it.
func content(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	var b bytes.Buffer
	if err := xml.NewEncoder(&b).EncodeElement(v, xml.StartElement{Name: xml.Name{Local: "r"}}); err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	s := bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte("<r>")), []byte("</r>"))
	return string(s), nil
}

// writeXML answers a query-protocol call. EC2 puts the fields into the response; the others into a result within it.
func writeXML(w http.ResponseWriter, service, action, requestID string, v any) error {
	body, err := content(v)
	if err != nil {
		return err
	}
	inner := "<requestId>" + requestID + "</requestId>" + body
	if service != serviceEC2 {
		inner = "<ResponseMetadata><RequestId>" + requestID + "</RequestId></ResponseMetadata>"
		if v != nil {
			inner = "<" + action + "Result>" + body + "</" + action + "Result>" + inner
		}
	}
	header(w, "text/xml;charset=UTF-8", requestID, http.StatusOK)
	// Nothing can be done for a caller that has gone away.
	_, _ = fmt.Fprintf(w, "%s<%sResponse xmlns=%q>%s</%sResponse>", xml.Header, action, namespaces[service], inner, action)
	return nil
}

// writeXMLError writes a failure in the form of the service.
func writeXMLError(w http.ResponseWriter, service, requestID string, e *apiError) {
	header(w, "text/xml;charset=UTF-8", requestID, e.Status)
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
	if e.Status >= 500 {
		kind = "Receiver"
	}
	_, _ = fmt.Fprintf(w, "%s<ErrorResponse xmlns=%q><Error><Type>%s</Type>%s</Error>"+
		"<RequestId>%s</RequestId></ErrorResponse>",
		xml.Header, cmp.Or(namespaces[service], "http://"+service+".amazonaws.com/doc/"), kind, fault, requestID)
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a bytes.Buffer does not fail
	return b.String()
}

func header(w http.ResponseWriter, contentType, requestID string, status int) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(status)
}
