package ec2api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nodeless/nodeless/region"
)

// maxBody bounds what a request may carry; EC2's own largest requests (2,000 overrides) stay well below.
const maxBody = 1 << 20

// Options say how the facade behaves; the zero value serves.
type Options struct {
	// Log receives faults of the simulation itself; nil means slog.Default.
	Log *slog.Logger
}

// server translates; all state is the region's.
type server struct {
	region *region.Region
	log    *slog.Logger
}

// call is one request on its way through.
type call struct {
	ctx     context.Context
	region  *region.Region
	form    form   // query protocols
	body    []byte // JSON protocols
	baseURL string // http://host:port the caller used
	action  string
	path    string
}

// operation answers one API call with what is to be encoded.
type operation func(*call) (any, error)

// New is the region's HTTP face. It keeps no state of its own and is safe for concurrent use.
func New(r *region.Region, o Options) http.Handler {
	s := &server{region: r, log: o.Log}
	if s.log == nil {
		s.log = slog.Default()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.serveAWS)
	mux.Handle(adminPath, adminHandler(r))
	return guard(s.survive(mux))
}

// Serve answers on addr (host:port, loopback only; port 0 takes a free one) until ctx ends. ready, which may be nil,
// is told the address as soon as connections are taken.
func Serve(ctx context.Context, addr string, r *region.Region, o Options, ready func(net.Addr)) error {
	if !loopbackHost(addr) {
		return fmt.Errorf("serve the simulated region on %s: not a loopback address; use 127.0.0.1:PORT", addr)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve the simulated region on %s: %w; choose another port or stop what holds it", addr, err)
	}
	// Long polls last 20 s at most, so no write deadline is shorter than that; reading is bounded, idle callers go.
	h := &http.Server{Handler: New(r, o), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if h.Shutdown(grace) != nil {
			_ = h.Close()
		}
	})
	defer stop()
	if ready != nil {
		ready(listener.Addr())
	}
	if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the simulated region on %s: %w", addr, err)
	}
	return nil
}

// survive turns a panic into InternalError and a log entry.
func (s *server) survive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("simulated region: request failed", "method", req.Method, "path", req.URL.Path, "panic", p)
				writeXMLError(w, serviceEC2, newRequestID(), failure(http.StatusInternalServerError, "InternalError", "An internal error has occurred"))
			}
		}()
		next.ServeHTTP(w, req)
	})
}

// newRequestID has the shape of AWS's; it identifies an answer and decides nothing.
func newRequestID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// serveAWS finds service and operation, calls it, and answers in the service's protocol.
func (s *server) serveAWS(w http.ResponseWriter, req *http.Request) {
	id := newRequestID()
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		writeXMLError(w, serviceEC2, id, failure(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "the request body is larger than 1 MiB or was cut off"))
		return
	}
	values := req.URL.Query()
	isForm := strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
	if isForm {
		posted, err := url.ParseQuery(string(body))
		if err != nil {
			writeXMLError(w, serviceEC2, id, failure(http.StatusBadRequest, "MalformedQueryString", "the form cannot be read: "+err.Error()))
			return
		}
		for k, v := range posted {
			values[k] = v
		}
	}
	c := &call{ctx: req.Context(), region: s.region, form: newForm(values), body: body, baseURL: "http://" + req.Host, path: req.URL.Path}
	service, protocol, err := s.identify(c, req, values)
	var answer any
	if err == nil {
		answer, err = s.run(c, service, protocol)
	}
	if err == nil {
		err = s.write(w, service, protocol, id, c.action, answer)
	}
	if err != nil {
		s.writeError(w, service, protocol, id, c, err)
	}
}

// identify names the service, tells its protocol for this request, and puts the action into c.
func (s *server) identify(c *call, req *http.Request, values url.Values) (service string, p protocol, err error) {
	sc, signed, err := credentialScope(req)
	service = sc.service
	if service == "" {
		service = guessService(req, values)
	}
	p = protocolOf(service, req)
	switch {
	case err != nil:
		return service, p, err
	case !signed:
		return service, p, failure(http.StatusForbidden, "MissingAuthenticationToken", "Request is missing Authentication Token: sign it with any credentials")
	case operations[service] == nil:
		return service, p, failure(http.StatusBadRequest, "InvalidAction", fmt.Sprintf("The simulated region has no service %q", service))
	case !global[service] && sc.region != s.region.Name():
		return service, p, failure(http.StatusBadRequest, "SignatureDoesNotMatch",
			fmt.Sprintf("Credential should be scoped to a valid region, not '%s': this endpoint is %s", sc.region, s.region.Name()))
	}
	switch p {
	case protocolQuery:
		c.action = values.Get("Action")
	case protocolJSON:
		_, c.action, _ = strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	case protocolREST:
		c.action = eksAction(req)
	}
	return service, p, nil
}

// global services are signed for one region of the partition, wherever the caller is.
var global = map[string]bool{serviceIAM: true, serviceSTS: true, servicePricing: true}

// protocol is how a service's requests and answers look.
type protocol int

const (
	protocolQuery protocol = iota
	protocolJSON
	protocolREST
)

func protocolOf(service string, req *http.Request) protocol {
	switch service {
	case serviceSSM, servicePricing:
		return protocolJSON
	case serviceSQS:
		if req.Header.Get("X-Amz-Target") != "" {
			return protocolJSON
		}
	case serviceEKS:
		return protocolREST
	}
	return protocolQuery
}

func (s *server) run(c *call, service string, p protocol) (any, error) {
	table := operations[service]
	if service == serviceSQS && p == protocolQuery {
		table = sqsQueryOperations
	}
	op := table[c.action]
	if op == nil {
		code := "InvalidAction"
		if p == protocolJSON {
			code = "UnknownOperationException"
		}
		return nil, failure(http.StatusBadRequest, code, fmt.Sprintf("The action %s is not valid for this web service (%s of the simulated region)", c.action, service))
	}
	done, err := s.region.Admit(c.ctx, c.action, c.form.str("ClientToken"), c.summary(p))
	if err != nil {
		return nil, err
	}
	answer, err := op(c)
	done(logged(err))
	return answer, err
}

func (s *server) write(w http.ResponseWriter, service string, p protocol, id, action string, answer any) error {
	if p == protocolQuery {
		return writeXML(w, service, action, id, answer)
	}
	return writeJSON(w, service, id, answer)
}

func (s *server) writeError(w http.ResponseWriter, service string, p protocol, id string, c *call, err error) {
	e, ok := asAPIError(err)
	if !ok {
		s.log.Error("simulated region: call failed", "service", service, "action", c.action, "error", err)
	}
	if p == protocolQuery {
		writeXMLError(w, service, id, e)
		return
	}
	writeJSONError(w, service, id, e)
}
