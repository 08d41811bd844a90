package faults

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// callKind is the API that a call belongs to.
type callKind string

const (
	kubernetesCall callKind = "api"
	awsCall        callKind = "aws"
)

// discovery reports whether a call is one of API discovery.
func discovery(what string) bool {
	path, found := strings.CutPrefix(what, "api get ")
	parts := strings.Split(path, "/")
	return found && (parts[0] == "version" || parts[0] == "api" && len(parts) < 3 || parts[0] == "apis" && len(parts) < 4)
}

// name describes a call without the names of objects, which differ from run to run.
func name(kind callKind, req *http.Request, body []byte) string {
	if kind == awsCall {
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") != "" {
			return form.Get("Action")
		}
		if target := req.Header.Get("X-Amz-Target"); target != "" {
			return target[strings.LastIndex(target, ".")+1:]
		}
		return req.Method + " " + req.URL.Path
	}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	verb := strings.ToLower(req.Method)
	if req.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	for i, p := range parts {
		if strings.ContainsAny(p, "0123456789") && i > 2 {
			parts[i] = "*"
		}
	}
	return verb + " " + strings.Join(parts, "/")
}

// refuse returns an error response.
func (d *door) refuse(req *http.Request, code int) *http.Response {
	text, contentType := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"an error was injected","code":`+fmt.Sprint(code)+`}`, "application/json"
	if d.kind == awsCall {
		aws := "InternalError"
		if code == http.StatusTooManyRequests {
			aws, code = "RequestLimitExceeded", http.StatusServiceUnavailable
		}
		text, contentType = `<Response><Errors><Error><Code>`+aws+
			`</Code><Message>injected</Message></Error></Errors><RequestID>r</RequestID></Response>`, "text/xml"
	}
	header := http.Header{"Content-Type": {contentType}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Request: req,
		Body:    io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)),
	}
}
