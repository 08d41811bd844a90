package awsapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// ask makes an admin call with a token.
func (p place) ask(t *testing.T, method, what, token string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+adminPath+what, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// post sends an admin call and returns the response.
func (p place) post(t *testing.T, what, body string, status int) string {
	t.Helper()
	answer := p.ask(t, http.MethodPost, what, adminToken, strings.NewReader(body))
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != status {
		t.Errorf("%s %s: %d %s, want %d", what, body, answer.StatusCode, text, status)
	}
	return string(text)
}

func (p place) get(t *testing.T, what string, v any) {
	t.Helper()
	answer := p.ask(t, http.MethodGet, what, adminToken, nil)
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Nothing below /_nodeless/ can be read or changed without the token; a region without a token rejects everyone.
func TestTheAdminWantsItsToken(t *testing.T) {
	b := newBuyer(t)
	p := b.place
	closed := httptest.NewServer(New(p.region, Options{}))
	defer closed.Close()
	shut := place{region: p.region, url: closed.URL}
	for _, c := range []struct {
		place place
		token string
	}{{p, ""}, {p, "guess"}, {p, adminToken[1:]}, {shut, ""}, {shut, adminToken}} {
		for method, what := range map[string]string{
			http.MethodGet: "summary", http.MethodPost: "fail",
			http.MethodPut: "nothing",
		} {
			answer := c.place.ask(t, method, what, c.token,
				strings.NewReader(`{"api":"CreateFleet","code":"InternalError","times":9}`))
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), "regionToken") ||
				strings.Contains(string(text), "instances") {
				t.Errorf("%s %s with token %q: %d %s", method, what, c.token, answer.StatusCode, text)
			}
		}
	}
	b.buy(t, b.fleet("claim-1", "m5.large")) // no failure was injected, and AWS's own calls need no such token
}

func TestTheAdminSeesCallsInstancesAndCost(t *testing.T) {
	b := newBuyer(t)
	none := []adminInstance{{}}
	if b.get(t, "instances", &none); len(none) != 0 {
		t.Errorf("instances before any launch: %v", none)
	}
	id := b.buy(t, b.fleet("claim-1", "m5.large"))
	if _, err := b.TerminateInstances(t.Context(),
		&ec2.TerminateInstancesInput{InstanceIds: []string{"i-nobody"}}); err == nil {
		t.Error("nobody was terminated")
	}
	var calls []adminCall
	b.get(t, "calls", &calls)
	launch, end := calls[len(calls)-2], calls[len(calls)-1]
	if launch.API != "CreateFleet" || launch.Token != "claim-1" || launch.Error != "" ||
		!launch.Time.Equal(b.clock.Now()) || launch.Summary != "1 on-demand, first m5.large of story" {
		t.Errorf("the launch was logged as %+v", launch)
	}
	if !strings.HasPrefix(end.Error, "InvalidInstanceID.") || end.Summary != "InstanceId i-nobody" {
		t.Errorf("the failure was logged as %+v", end)
	}
	var instances []adminInstance
	b.get(t, "instances", &instances)
	if len(instances) != 1 || instances[0].ID != id || instances[0].Tags["karpenter.sh/nodeclaim"] != "claim-1" ||
		instances[0].PriceMicros != 96_000 {
		t.Errorf("instances: %+v", instances)
	}
	var s adminSummary
	if b.get(t, "summary", &s); s != (adminSummary{Instances: 1, DollarsPerHour: 0.096, Launched: 1}) {
		t.Errorf("summary: %+v", s)
	}
}

func TestTheAdminMakesCallsFail(t *testing.T) {
	b := newBuyer(t)
	b.post(t, "fail", `{"api":"CreateFleet","code":"RequestLimitExceeded","message":"slow down","status":503,"times":1}`, 200)
	_, err := b.CreateFleet(t.Context(), b.fleet("claim-1", "m5.large"))
	wantCode(t, err, "RequestLimitExceeded")
	b.buy(t, b.fleet("claim-1", "m5.large"))
}

func TestTheAdminMakesCallsSlow(t *testing.T) {
	b := newBuyer(t)
	b.post(t, "delay", `{"api":"CreateFleet","milliseconds":1500}`, 200)
	asked, answered := b.clock.Now(), make(chan error, 1)
	go func() {
		_, err := b.CreateFleet(t.Context(), b.fleet("claim-1", "m5.large"))
		answered <- err
	}()
	for tick := time.Tick(time.Millisecond); ; {
		select {
		case err := <-answered:
			if took := b.clock.Now().Sub(asked); err != nil || took < 1500*time.Millisecond {
				t.Errorf("answered after %v: %v", took, err)
			}
			return
		case <-tick:
			b.clock.Advance(100 * time.Millisecond)
		}
	}
}

func TestTheAdminTakesNoNonsense(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		what, body, says string
		status           int
	}{
		{"capacity", `{"type":`, "cannot be read", 400},
		{"capacity", `{"kind":"m5.large"}`, `unknown field \"kind\"`, 400},
		{"capacity", `{} {}`, "more than one", 400},
		{"capacity", ``, "cannot be read", 400},
		{"fail", `{"api":"MakeCoffee","code":"X","times":1}`, "MakeCoffee", 400},
		{"fail", `{"api":"CreateFleet","times":1}`, "code", 400},
		{"fail", `{"api":"CreateFleet","code":"X","times":-1}`, "times", 400},
		{"fail", `{"api":"CreateFleet","code":"X","status":200}`, "status", 400},
		{"delay", `{"api":"CreateFleet","milliseconds":-1}`, "milliseconds", 400},
		{"delay", `{"api":"CreateFleet","milliseconds":0}`, "", 200},
		{"interrupt", `{"instanceId":"i-nobody"}`, "i-nobody", 400},
		{"rebalance", `{"instanceId":"i-nobody"}`, "i-nobody", 400},
		{"impair", `{"instanceId":"i-nobody","check":"instance"}`, "i-nobody", 400},
		{"nothing", `{}`, "", 404},
	} {
		if answer := p.post(t, c.what, c.body, c.status); !strings.Contains(answer, c.says) {
			t.Errorf("%s %s answered %s, want mention of %s", c.what, c.body, answer, c.says)
		}
	}
}

func TestTheAdminMakesAnInstanceFailItsChecks(t *testing.T) {
	b := newBuyer(t)
	id := b.buy(t, b.fleet("claim-1", "m5.large"))
	b.clock.Advance(10 * time.Second)
	b.post(t, "impair", `{"instanceId":"`+id+`","check":"mood"}`, 400)
	for _, ago := range []string{"-1", "9223372036854775807"} {
		b.post(t, "impair", `{"instanceId":"`+id+`","check":"instance","secondsAgo":`+ago+`}`, 400)
	}
	b.post(t, "impair", `{"instanceId":"`+id+`","check":"instance","secondsAgo":60}`, 200)
	b.post(t, "impair", `{"instanceId":"`+id+`","check":"system-reboot"}`, 200)
	got, err := b.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: []string{id}})
	if err != nil || len(got.InstanceStatuses) != 1 {
		t.Fatalf("statuses: %+v, %v", got, err)
	}
	s := got.InstanceStatuses[0]
	if check := s.InstanceStatus; check.Status != "impaired" || check.Details[0].Status != "failed" ||
		b.clock.Now().Sub(*check.Details[0].ImpairedSince) != time.Minute {
		t.Errorf("check of the instance: %+v", check)
	}
	if s.SystemStatus.Status != "ok" || len(s.Events) != 1 || s.Events[0].Code != "system-reboot" ||
		!s.Events[0].NotBefore.After(b.clock.Now()) {
		t.Errorf("system %+v, events %+v", s.SystemStatus, s.Events)
	}
}

func TestTheAdminMakesACapacityBlock(t *testing.T) {
	b := newBuyer(t)
	b.post(t, "capacity-block",
		`{"type":"m5.large","zone":"us-west-2a","count":2,"minutes":60,"tags":{"team":"training"}}`, http.StatusOK)
	b.post(t, "capacity-block", `{"type":"m5.large","zone":"us-west-2a","count":2,"minutes":-5}`, http.StatusBadRequest)
	blocks := b.reservations(t, "tag:team", "training")
	if len(blocks) != 1 || blocks[0].ReservationType != "capacity-block" || *blocks[0].AvailableInstanceCount != 2 ||
		!blocks[0].EndDate.Equal(b.clock.Now().Add(time.Hour)) {
		t.Errorf("blocks %+v", blocks)
	}
	var s adminSummary
	if b.get(t, "summary", &s); s != (adminSummary{DollarsPerHour: 0.192, Unused: 2}) {
		t.Errorf("summary: %+v", s)
	}
	b.clock.Advance(31 * time.Minute)
	if n := *b.reservations(t)[0].AvailableInstanceCount; n != 0 {
		t.Errorf("29 minutes before its end the block takes %d instances", n)
	}
}
