package awsapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/region"
)

// adminPath is the root of the calls that observe and disturb the simulation, in addition to AWS's own:
//
//	GET  calls, instances, summary
//	POST capacity, capacity-block, interrupt, rebalance, impair, fail, delay, key
//
// Every call sends Options.AdminToken as Authorization: Bearer. AWS's own calls use that header for SigV4, so no
// request can be both.
const adminPath = "/_nodeless/"

// adminCall is a call in the response to GET calls.
type adminCall struct {
	Time    time.Time `json:"time"`
	API     string    `json:"api"`
	Token   string    `json:"token"`
	Summary string    `json:"summary"`
	Error   string    `json:"error"`
}

// adminInstance is an instance in the response to GET instances; unknown and future times are omitted.
type adminInstance struct {
	ID           string            `json:"id"`
	Type         string            `json:"type"`
	Zone         string            `json:"zone"`
	CapacityType string            `json:"capacityType"`
	Reservation  string            `json:"reservation,omitempty"` // the capacity reservation it runs in
	State        region.State      `json:"state"`
	Tags         map[string]string `json:"tags"`
	ClientToken  string            `json:"clientToken"`
	FleetID      string            `json:"fleetId"`
	ImageID      string            `json:"imageId"`
	SubnetID     string            `json:"subnetId"`
	PrivateIP    string            `json:"privateIp"`
	PrivateDNS   string            `json:"privateDns"`
	PriceMicros  int64             `json:"priceMicros"`
	Booted       bool              `json:"booted"`
	LaunchedAt   time.Time         `json:"launchedAt"`
	BootAt       time.Time         `json:"bootAt,omitzero"`
	InterruptAt  time.Time         `json:"interruptAt,omitzero"`
	TerminatedAt time.Time         `json:"terminatedAt,omitzero"`
	Reason       string            `json:"reason,omitempty"`
}

type adminSummary struct {
	Instances      int     `json:"instances"` // pending or running
	DollarsPerHour float64 `json:"dollarsPerHour"`
	Launched       int     `json:"launched"`
	Unused         int     `json:"unused"` // reserved instances that do not run; included in dollarsPerHour
}

type adminCapacity struct {
	Type         string `json:"type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	Count        int    `json:"count"`
}

// adminBlock is a Capacity Block that begins now.
type adminBlock struct {
	Type    string            `json:"type"`
	Zone    string            `json:"zone"`
	Count   int               `json:"count"`
	Minutes int64             `json:"minutes"` // until its end
	Tags    map[string]string `json:"tags"`
}

type adminInstanceID struct {
	InstanceID string `json:"instanceId"`
}

type adminImpair struct {
	InstanceID string `json:"instanceId"`
	Check      string `json:"check"` // instance, system, or the code of planned maintenance
	SecondsAgo int64  `json:"secondsAgo"`
}

type adminFail struct {
	API     string `json:"api"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Status  int    `json:"status"` // 0 = the code's status on AWS
	Times   int    `json:"times"`
}

type adminKey struct {
	Key     string `json:"key"` // of KMS: ID, alias or ARN
	Enabled bool   `json:"enabled"`
}

type adminDelay struct {
	API          string `json:"api"`
	Milliseconds int64  `json:"milliseconds"`
}

func adminHandler(r *region.Region) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+adminPath+"calls", answer(func() any {
		out := []adminCall{}
		for _, c := range r.Calls() {
			out = append(out, adminCall(c))
		}
		return out
	}))
	mux.HandleFunc("GET "+adminPath+"instances", answer(func() any {
		out := []adminInstance{}
		for _, i := range r.Instances() {
			out = append(out, adminInstanceOf(i))
		}
		return out
	}))
	mux.HandleFunc("GET "+adminPath+"summary", answer(func() any {
		s := r.Summary()
		return adminSummary{
			Instances: s.Instances, DollarsPerHour: float64(s.PriceMicros) / 1e6, Launched: s.Launched, Unused: s.Unused,
		}
	}))
	mux.HandleFunc("POST "+adminPath+"capacity", handle(func(q adminCapacity) error {
		return r.SetCapacity(region.Pool{Type: q.Type, Zone: q.Zone, CapacityType: q.CapacityType}, q.Count)
	}))
	mux.HandleFunc("POST "+adminPath+"capacity-block", handle(func(q adminBlock) error {
		_, err := r.AddCapacityBlock(region.CapacityReservationRequest{
			Type: q.Type, Zone: q.Zone, Count: q.Count, Tags: q.Tags,
			EndAt: r.Now().Add(time.Duration(min(max(q.Minutes, -1), maxBlockMinutes)) * time.Minute),
		})
		return err
	}))
	mux.HandleFunc("POST "+adminPath+"interrupt",
		handle(func(q adminInstanceID) error { return r.Interrupt(q.InstanceID) }))
	mux.HandleFunc("POST "+adminPath+"rebalance",
		handle(func(q adminInstanceID) error { return r.Rebalance(q.InstanceID) }))
	mux.HandleFunc("POST "+adminPath+"impair", handle(func(q adminImpair) error {
		// the bounds prevent an overflow; the region checks the value
		return r.Impair(q.InstanceID, q.Check, time.Duration(min(max(q.SecondsAgo, -1), 1<<32))*time.Second)
	}))
	mux.HandleFunc("POST "+adminPath+"fail", handle(func(q adminFail) error { return injectFailure(r, q) }))
	mux.HandleFunc("POST "+adminPath+"delay", handle(func(q adminDelay) error { return injectDelay(r, q) }))
	mux.HandleFunc("POST "+adminPath+"key", handle(func(q adminKey) error { return r.SetKeyEnabled(q.Key, q.Enabled) }))
	return mux
}

// adminsOnly rejects calls that lack the token.
func adminsOnly(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !httpguard.Same(httpguard.Bearer(req), token) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="nodeless region"`)
			writeAdmin(w, http.StatusUnauthorized, map[string]string{"code": "Unauthorized", "error": tokenRequired})
			return
		}
		next.ServeHTTP(w, req)
	})
}

const tokenRequired = "send the region's token as Authorization: Bearer TOKEN; nodeless env exports it as " +
	"NODELESS_REGION_TOKEN, nodeless status -o json has it as .session.regionToken"

func adminInstanceOf(i region.Instance) adminInstance {
	return adminInstance{
		ID: i.ID, Type: i.Type, Zone: i.Zone, CapacityType: i.CapacityType, State: i.State, Tags: i.Tags,
		ClientToken: i.ClientToken, FleetID: i.FleetID, Reservation: i.ReservationID,
		ImageID: i.ImageID, SubnetID: i.SubnetID, PrivateIP: i.PrivateIP.String(), PrivateDNS: i.PrivateDNS,
		PriceMicros: i.PriceMicros, Booted: i.Booted,
		LaunchedAt: i.LaunchedAt, BootAt: i.BootAt, InterruptAt: i.InterruptAt, TerminatedAt: i.TerminatedAt,
		Reason: i.ReasonCode,
	}
}

func injectFailure(r *region.Region, q adminFail) error {
	switch {
	case !served(q.API):
		return unknownAPI(q.API)
	case q.Code == "" && q.Times > 0:
		return badRequest("code: missing; name an AWS error code such as RequestLimitExceeded")
	case q.Times < 0:
		return badRequest("times: %d; give 1 or more, or 0 to end it", q.Times)
	case q.Status != 0 && (q.Status < 400 || q.Status > 599):
		return badRequest("status: %d; give an HTTP status of 400 to 599", q.Status)
	}
	r.Fail(q.API, &region.APIError{Code: q.Code, Message: q.Message, HTTPStatus: q.Status}, q.Times)
	return nil
}

// maxBlockMinutes is the longest Capacity Block that AWS sells (EC2 user guide, "Capacity Blocks for ML": 182 days).
const maxBlockMinutes = 182 * 24 * 60

// longestDelay keeps a forgotten delay from looking like a permanent hang.
const longestDelay = 10 * time.Minute

func injectDelay(r *region.Region, q adminDelay) error {
	if !served(q.API) {
		return unknownAPI(q.API)
	}
	if q.Milliseconds < 0 || q.Milliseconds > longestDelay.Milliseconds() {
		return badRequest("milliseconds: %d; give 0 to %d", q.Milliseconds, longestDelay.Milliseconds())
	}
	r.Delay(q.API, time.Duration(q.Milliseconds)*time.Millisecond)
	return nil
}

// served reports whether any service has a call of this name.
func served(api string) bool {
	for _, table := range operations {
		if table[api] != nil {
			return true
		}
	}
	return false
}

func unknownAPI(api string) error {
	return badRequest("api: %q is not a call of the simulated region; name one such as CreateFleet", api)
}

func badRequest(format string, args ...any) error {
	return failure(http.StatusBadRequest, "BadRequest", fmt.Sprintf(format, args...))
}

func answer(what func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeAdmin(w, http.StatusOK, what()) }
}

// handle reads a request of one JSON object without unknown fields and responds with {} or an error.
func handle[Q any](do func(Q) error) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		var q Q
		err := decodeAdmin(http.MaxBytesReader(w, req.Body, maxBody), &q)
		if err == nil {
			err = do(q)
		}
		if err != nil {
			e, _ := asAPIError(err)
			writeAdmin(w, e.HTTPStatus, map[string]string{"code": e.Code, "error": e.Message})
			return
		}
		writeAdmin(w, http.StatusOK, struct{}{})
	}
}

func decodeAdmin(body io.Reader, v any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badRequest("the body cannot be read: %v; send one JSON object", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body holds more than one JSON object")
	}
	return nil
}

func writeAdmin(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone away
}
