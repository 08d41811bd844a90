package awsapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/region"
)

// Limits of a request body. EC2's largest requests (2,000 overrides) stay well below maxBody. A batch of log events
// has up to 1 MiB of messages, in which JSON may encode one byte as six.
const (
	maxBody     = 1 << 20
	maxLogsBody = 7 << 20
	bodyWithin  = 30 * time.Second
)

// Options configures the HTTP interface; the zero value is usable.
type Options struct {
	// Log receives internal errors of the simulation; nil means slog.Default.
	Log *slog.Logger
	// AdminToken is the bearer token of calls below /_nodeless/; "" = all of them are refused.
	AdminToken string
	// Credentials are the administrator's. With them, calls must be signed with these or with a key that IAM created;
	// without, any key that IAM did not create is the administrator's, whatever its signature.
	Credentials aws.Credentials
	// Now is the clock that decides whether signatures are fresh; nil means time.Now.
	Now func() time.Time
	// Kubernetes is the cluster behind EKS; without it, EKS rejects calls about Fargate profiles and add-ons.
	Kubernetes Kubernetes
}

// server translates between the wire and the region; it has no state.
type server struct {
	region     *region.Region
	kubernetes *kubernetes
	log        *slog.Logger
	keys       Keys
}

// call is one request.
type call struct {
	address
	ctx        context.Context
	region     *region.Region
	kubernetes *kubernetes
	parameters *parameter // query protocols
	members    url.Values // from the path and the query of a REST request
	body       []byte     // JSON protocols
	baseURL    string     // http://host:port that the caller used
	action     string
	path       string
	caller     Caller
	signedFor  string // region
}

// New returns the HTTP handler of a region. It keeps no state of its own and is safe for concurrent use.
func New(r *region.Region, o Options) http.Handler {
	s := &server{
		region: r, kubernetes: &kubernetes{Kubernetes: o.Kubernetes}, log: o.Log,
		keys: Keys{Region: r, Administrator: o.Credentials, Now: o.Now},
	}
	if s.keys.Now == nil {
		s.keys.Now = time.Now
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.serveAWS)
	mux.Handle(adminPath, adminsOnly(o.AdminToken, adminHandler(r)))
	return guard(s.recoverPanics(mux))
}

// Serve serves the region on addr (host:port, loopback only; port 0 means any free port) until ctx ends. Once it
// accepts connections, it calls ready, which may be nil, with the address.
func Serve(ctx context.Context, addr string, r *region.Region, o Options, ready func(net.Addr)) error {
	if !loopbackHost(addr) {
		return fmt.Errorf("serve the simulated region on %s: not a loopback address; use 127.0.0.1:PORT", addr)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve the simulated region on %s: %w; choose another port or stop what holds it", addr, err)
	}
	h := httpguard.NewServer(bodyWithin, New(r, o)) // no write deadline: long polls last 20 s
	h.BaseContext = func(net.Listener) context.Context { return ctx }
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

// recoverPanics turns a panic into InternalError and a log entry.
func (s *server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("simulated region: request failed", "method", req.Method, "path", req.URL.Path, "panic", p)
				a := addressOf(req, req.URL.Query())
				writeFailure(w, a, failure(http.StatusInternalServerError, "InternalError", "An internal error has occurred"))
			}
		}()
		next.ServeHTTP(w, req)
	})
}

// newRequestID returns a random ID formatted like AWS's. Nothing else depends on it.
func newRequestID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// serveAWS finds a request's operation, runs it, and responds in the protocol of its service.
func (s *server) serveAWS(w http.ResponseWriter, req *http.Request) {
	c, err := s.read(w, req)
	var output any
	if err == nil {
		output, err = s.run(c)
	}
	if err == nil {
		err = s.write(w, c, output)
	}
	if err != nil {
		s.writeError(w, c, err)
	}
}

// address is what writing a response requires from its request.
type address struct {
	id       string
	service  string
	protocol protocol
}

// addressOf returns the address of a request, even if the request is invalid in every other respect. values are the
// parameters of its URL and of a form.
func addressOf(req *http.Request, values url.Values) address {
	sc, _, _ := credentialScope(req) // identify reports its errors
	service := cmp.Or(sc.service, guessService(req, values))
	return address{id: newRequestID(), service: service, protocol: protocolOf(service, req, values)}
}

// read reads the body and parameters of a request and determines its action. The call is never nil.
func (s *server) read(w http.ResponseWriter, req *http.Request) (*call, error) {
	values := req.URL.Query()
	c := &call{
		ctx: req.Context(), region: s.region, kubernetes: s.kubernetes, baseURL: "http://" + req.Host, path: req.URL.Path,
	}
	c.address = addressOf(req, values)
	var err error
	limit := int64(maxBody)
	if c.service == serviceLogs {
		limit = maxLogsBody
	}
	if c.body, err = io.ReadAll(http.MaxBytesReader(w, req.Body, limit)); err != nil {
		return c, failure(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge",
			fmt.Sprintf("the request body is larger than %d MiB or was cut off", limit>>20))
	}
	if strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		posted, err := url.ParseQuery(string(c.body))
		if err != nil {
			return c, failure(http.StatusBadRequest, "MalformedQueryString", "the form cannot be read: "+err.Error())
		}
		maps.Copy(values, posted)
		c.address = addressOf(req, values)
	}
	if c.service == serviceSQS && values.Get("QueueUrl") == "" { // older clients post to the queue's URL
		values.Set("QueueUrl", c.baseURL+c.path)
	}
	c.parameters = newParameters(values)
	c.action = actionOf(c.protocol, c.service, req, values)
	if read := restRequests[c.service]; read != nil && c.protocol == protocolREST {
		_, c.members = read(req)
	}
	return c, s.identify(c, req)
}

// identify returns an error unless the region serves the request's service and the request is signed for this region.
func (s *server) identify(c *call, req *http.Request) error {
	sc, signed, err := credentialScope(req)
	switch {
	case err != nil:
		return err
	case !signed:
		return failure(http.StatusForbidden, "MissingAuthenticationToken",
			"Request is missing Authentication Token: sign it with any credentials")
	case operations[c.service] == nil:
		return unserved(c)
	case !global[c.service] && sc.region != s.region.Name():
		return failure(http.StatusBadRequest, "SignatureDoesNotMatch",
			fmt.Sprintf("Credential should be scoped to a valid region, not '%s': this endpoint is %s", sc.region,
				s.region.Name()))
	}
	c.signedFor = sc.region
	c.caller, err = s.keys.CallerOf(req, c.body)
	if err != nil {
		return c.refusal(err)
	}
	return nil
}

// global lists the services whose requests are signed for one region of the partition, wherever the caller is.
var global = map[string]bool{serviceIAM: true, serviceSTS: true, servicePricing: true}

func (s *server) run(c *call) (any, error) {
	do := operations[c.service][c.action]
	if do == nil {
		return nil, unserved(c)
	}
	done, err := s.region.Admit(c.ctx, c.action, c.parameters.str("ClientToken"), c.summary())
	if err != nil {
		return nil, err
	}
	output, err := do(c)
	if c.service == serviceSQS && c.protocol == protocolJSON {
		err = sqsJSONError(err)
	}
	done(err)
	return output, err
}

func (s *server) write(w http.ResponseWriter, c *call, output any) error {
	if c.protocol == protocolQuery {
		writeXML(w, c.service, c.action, c.id, output)
		return nil
	}
	return writeJSON(w, c.service, c.id, output)
}

func (s *server) writeError(w http.ResponseWriter, c *call, err error) {
	e, ok := asAPIError(err)
	if c.service == serviceLogs && e.HTTPStatus < 500 {
		e = failure(http.StatusBadRequest, e.Code, e.Message) // one status for all codes
	}
	if !ok {
		s.log.Error("simulated region: call failed", "service", c.service, "action", c.action, "error", err)
	}
	writeFailure(w, c.address, e)
}

// writeFailure writes an error in the protocol of the request.
func writeFailure(w http.ResponseWriter, a address, e *region.APIError) {
	switch a.protocol {
	case protocolQuery, protocolRESTXML:
		writeXMLError(w, a.service, a.id, e)
	case protocolCBOR:
		writeCBORError(w, a.id, e)
	default:
		writeJSONError(w, a.service, a.id, e)
	}
}
