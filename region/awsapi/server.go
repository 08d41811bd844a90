package awsapi

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
	// AdminToken is the bearer token that calls below /_nodeless/ must send; "" = every one of them is refused.
	AdminToken string
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
	mux.Handle(adminPath, adminsOnly(o.AdminToken, adminHandler(r)))
	return guard(s.survive(mux))
}

// Serve answers on addr (host:port, loopback only; port 0 takes a free one) until ctx ends. ready, which may be nil,
// receives the address as soon as connections are accepted.
func Serve(ctx context.Context, addr string, r *region.Region, o Options, ready func(net.Addr)) error {
	if !loopbackHost(addr) {
		return fmt.Errorf("serve the simulated region on %s: not a loopback address; use 127.0.0.1:PORT", addr)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve the simulated region on %s: %w; choose another port or stop what holds it", addr, err)
	}
	// Long polls last 20 s at most, so no write deadline is shorter than that; reading is bounded, idle callers go.
	h := &http.Server{
		Handler: New(r, o), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
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
				a := address{id: newRequestID()}
				a.service, a.protocol = serviceOf(req, req.URL.Query())
				writeFailure(w, a, failure(http.StatusInternalServerError, "InternalError", "An internal error has occurred"))
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
	a := address{id: newRequestID()}
	c, values, err := s.read(w, req)
	if err == nil {
		a, err = s.identify(c, req, values, a.id)
	} else {
		a.service, a.protocol = serviceOf(req, req.URL.Query())
	}
	var answer any
	if err == nil {
		answer, err = s.run(c, a)
	}
	if err == nil {
		err = s.write(w, a, c.action, answer)
	}
	if err != nil {
		s.writeError(w, a, c.action, err)
	}
}

// address is what an answer needs to know of its request.
type address struct {
	id       string
	service  string
	protocol protocol
}

// read takes the body and the parameters of a request; the call is never nil.
func (s *server) read(w http.ResponseWriter, req *http.Request) (*call, url.Values, error) {
	values := req.URL.Query()
	c := &call{ctx: req.Context(), region: s.region, baseURL: "http://" + req.Host, path: req.URL.Path}
	var err error
	if c.body, err = io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody)); err != nil {
		return c, values, failure(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge",
			"the request body is larger than 1 MiB or was cut off")
	}
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		posted, err := url.ParseQuery(string(c.body))
		if err != nil {
			return c, values, failure(http.StatusBadRequest, "MalformedQueryString", "the form cannot be read: "+err.Error())
		}
		for k, v := range posted {
			values[k] = v
		}
	}
	c.form = newForm(values)
	return c, values, nil
}

// serviceOf returns the service and the protocol of a request that may be wrong in every other respect.
func serviceOf(req *http.Request, values url.Values) (string, protocol) {
	sc, _, _ := credentialScope(req) // identify reports what is wrong with it
	service := sc.service
	if service == "" {
		service = guessService(req, values)
	}
	return service, protocolOf(service, req, values)
}

// identify determines the service and the protocol of a request, and sets the action of c.
func (s *server) identify(c *call, req *http.Request, values url.Values, id string) (address, error) {
	service, p := serviceOf(req, values)
	a := address{id: id, service: service, protocol: p}
	c.action = actionOf(p, service, req, values)
	sc, signed, err := credentialScope(req)
	switch {
	case err != nil:
		return a, err
	case !signed:
		return a, failure(http.StatusForbidden, "MissingAuthenticationToken",
			"Request is missing Authentication Token: sign it with any credentials")
	case operations[service] == nil:
		return a, unserved(p, service, c.action)
	case !global[service] && sc.region != s.region.Name():
		return a, failure(http.StatusBadRequest, "SignatureDoesNotMatch",
			fmt.Sprintf("Credential should be scoped to a valid region, not '%s': this endpoint is %s", sc.region,
				s.region.Name()))
	}
	return a, nil
}

// global services are signed for one region of the partition, wherever the caller is.
var global = map[string]bool{serviceIAM: true, serviceSTS: true, servicePricing: true}

func (s *server) run(c *call, a address) (any, error) {
	table := operations[a.service]
	if a.service == serviceSQS && a.protocol == protocolQuery {
		table = sqsQueryOperations
	}
	op := table[c.action]
	if op == nil {
		return nil, unserved(a.protocol, a.service, c.action)
	}
	done, err := s.region.Admit(c.ctx, c.action, c.form.str("ClientToken"), c.summary(a.protocol))
	if err != nil {
		return nil, err
	}
	answer, err := op(c)
	done(logged(err))
	return answer, err
}

func (s *server) write(w http.ResponseWriter, a address, action string, answer any) error {
	if a.protocol == protocolQuery {
		return writeXML(w, a.service, action, a.id, answer)
	}
	return writeJSON(w, a.service, a.id, answer)
}

func (s *server) writeError(w http.ResponseWriter, a address, action string, err error) {
	e, ok := asAPIError(err)
	if !ok {
		s.log.Error("simulated region: call failed", "service", a.service, "action", action, "error", err)
	}
	writeFailure(w, a, e)
}

// writeFailure writes a failure in the protocol of the request.
func writeFailure(w http.ResponseWriter, a address, e *apiError) {
	switch a.protocol {
	case protocolQuery, protocolRESTXML:
		writeXMLError(w, a.service, a.id, e)
	case protocolCBOR:
		writeCBORError(w, a.id, e)
	default:
		writeJSONError(w, a.service, a.id, e)
	}
}
