package pipeline

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// Output is a section of output.conf.
type Output struct {
	Name, At string // "http", "output.conf line 3"
	// ID is a hash of the section.
	ID string
	// To is the destination, without parts that may be secret.
	To string
	// Retries is how often a delivery is retried before its records are dropped; -1 means as long as they are stored.
	Retries int
	// Insecure skips the verification of the server's certificate.
	Insecure bool

	match  func(tag string) bool
	encode func([]*Record) ([]Delivery, error)
	answer func(body []byte, records int) (again []int, rejected int, why string)
}

// Delivery is a request to send or, with File, data to append to a file or, with Call, a call of an AWS API.
type Delivery struct {
	URL    string
	Header http.Header
	Body   []byte
	// Records is the number of records in Body.
	Records int
	File    string // relative, with slashes, and never outside

	// Of are the indexes of its records; nil means all. Set it where records may be encoded to several deliveries.
	Of []int

	// Call is sent to AWS instead. If its target does not exist, the calls in Create create it first.
	Call   *Call
	Create []Call
}

// Matches reports whether records with a tag go to the output.
func (o *Output) Matches(tag string) bool { return o.match(tag) }

// Encode converts records to deliveries.
func (o *Output) Encode(records []*Record) ([]Delivery, error) { return o.encode(records) }

// Answer interprets a server's answer: it returns the records to send again, how many were refused for good, and the
// first reason of either.
func (o *Output) Answer(body []byte, records int) (again []int, rejected int, why string) {
	if o.answer == nil {
		return nil, 0, ""
	}
	return o.answer(body, records)
}

func (o *Output) String() string { return o.Name + " (" + o.At + ")" }

// newOutput parses an output section.
func newOutput(s *section) (*Output, error) {
	o := &Output{
		Name: strings.ToLower(s.Value("name")), At: fmt.Sprintf("%s line %d", s.File, s.Line),
		ID: identity(s.LogSection), match: matcher(s.Value("match")),
	}
	switch strings.ToLower(s.text("retry_limit", "")) {
	case "", "false", "no_limits":
		o.Retries = -1
	case "no_retries":
	default:
		o.Retries = s.number("retry_limit", 0, 1, 1_000_000)
	}
	s.ignore("workers", "buffer_size", "trace_output", "trace_error", "logstash_prefix_separator", "current_time_index")
	if configure := outputs[o.Name]; configure != nil {
		configure(o, s)
	} else {
		s.fail("this output plugin is not supported")
	}
	return o, s.rest()
}

// outputs are the plugins by name. Each reads its keys and sets To, encode and answer.
var outputs = map[string]func(*Output, *section){
	"stdout": (*Output).stdout, "file": (*Output).file, "http": (*Output).http, "loki": (*Output).loki,
	"es": (*Output).bulk, "opensearch": (*Output).bulk,
	"cloudwatch_logs": (*Output).cloudWatch, "cloudwatch": (*Output).cloudWatch,
}

// identity returns a hash of a section.
func identity(s *fargate.LogSection) string {
	h := sha256.New()
	for _, e := range s.Entries {
		_, _ = fmt.Fprintf(h, "%q=%q\n", e.Key, e.Value) // a hash never fails
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:16]
}

// endpoint is a server, with its credentials.
type endpoint struct {
	base     string // without a path
	header   http.Header
	compress string // of bodies: "gzip" or ""
}

// server reads the keys that all HTTP outputs share.
func (o *Output) server(s *section, defaultPort int) endpoint {
	host := s.text("host", "127.0.0.1")
	if host == "" || strings.ContainsAny(host, "/@? ") {
		s.fail("Host is not a host name or address")
	}
	scheme := "http"
	if s.on("tls", false) {
		scheme = "https"
	}
	o.Insecure = !s.on("tls.verify", true)
	port := s.number("port", defaultPort, 1, 65535)
	e := endpoint{base: scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port)), header: http.Header{}}
	o.To = e.base
	if user := s.text("http_user", ""); user != "" {
		(&http.Request{Header: e.header}).SetBasicAuth(user, s.text("http_passwd", ""))
	}
	s.ignore("http_user", "http_passwd")
	for _, line := range s.all("header") {
		name, value, ok := strings.Cut(line, " ")
		if !ok {
			s.fail("Header needs a name and a value")
		}
		e.header.Set(name, strings.TrimSpace(value))
	}
	return e
}

func (e endpoint) post(path, kind string, body []byte, records int) Delivery {
	header := e.header.Clone()
	header.Set("Content-Type", kind)
	if e.compress == "gzip" {
		header.Set("Content-Encoding", "gzip")
		body = zipped(body)
	}
	return Delivery{URL: e.base + path, Header: header, Body: body, Records: records}
}

// uri reads a path.
func (s *section) uri(key, otherwise string) string {
	uri := s.text(key, otherwise)
	if !strings.HasPrefix(uri, "/") || strings.ContainsAny(uri, " \t") {
		s.fail("%s does not begin with a slash, or has spaces", key)
	}
	return uri
}

// stdout configures an output to a file of the router's own.
func (o *Output) stdout(s *section) {
	format := s.oneOf("format", "msgpack", "msgpack", "json", "json_lines", "json_stream")
	date := newDate(s, "date")
	o.To = StdoutFile
	o.encode = func(records []*Record) ([]Delivery, error) {
		body, err := encodeJSON(records, format, date)
		if format == "msgpack" {
			body, err = printed(records)
		}
		if !bytes.HasSuffix(body, newline) && len(body) > 0 {
			body = append(body, newline...)
		}
		return []Delivery{{File: StdoutFile, Body: body}}, err
	}
}

// StdoutFile is the file of the output stdout.
const StdoutFile = "stdout.log"

var newline = []byte("\n")

// file configures an output to files below a directory of the router: a user who may write the ConfigMap must not be
// able to write elsewhere on the host.
func (o *Output) file(s *section) {
	format := s.oneOf("format", "out_file", "out_file", "plain")
	dir, name := s.text("path", ""), s.text("file", "")
	s.ignore("mkdir")
	o.To = inside(dir, name)
	o.encode = func(records []*Record) ([]Delivery, error) {
		var all []Delivery
		at := map[string]int{}
		for n, r := range records {
			to := inside(dir, name)
			if name == "" {
				to = inside(dir, r.Tag)
			}
			line, err := jsonLine(r.Fields)
			if err != nil {
				return nil, err
			}
			if format == "out_file" {
				line = append(fmt.Appendf(nil, "%s: [%s, ", r.Tag, seconds(r.Time)), append(line, ']')...)
			}
			i, ok := at[to]
			if !ok {
				i = len(all)
				at[to], all = i, append(all, Delivery{File: to})
			}
			all[i].Body, all[i].Of = append(append(all[i].Body, line...), '\n'), append(all[i].Of, n)
		}
		return all, nil
	}
}

// inside returns a path below the directory "files", whatever dir and name are.
func inside(dir, name string) string {
	return path.Join("files", strings.TrimPrefix(path.Clean("/"+dir+"/"+name), "/"))
}
