package elb_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/porttest"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/elb"
)

// story is a region with a load balancer, a target group, and servers of this process behind the addresses of pods.
type story struct {
	*region.Region
	t        *testing.T
	clock    *clock.Virtual
	data     *elb.DataPath
	balancer region.LoadBalancer
	group    region.TargetGroup
	listener region.Listener

	drained chan string // addresses of targets whose last request has ended

	mu   sync.Mutex
	pods map[string]*httptest.Server // by target address
}

// told sends the addresses in the log's messages about drained targets to a channel.
type told struct {
	slog.Handler
	drained chan<- string
}

func (told) Enabled(context.Context, slog.Level) bool { return true }

func (h told) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "target has drained" {
		r.Attrs(func(a slog.Attr) bool { h.drained <- a.Value.String(); return true })
	}
	return nil
}

// begin opens a region with a load balancer of the given type, which listens on a free port.
func begin(t *testing.T, kind string) *story {
	t.Helper()
	v := clock.NewVirtual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	r := must(region.Open(region.Config{Name: "us-west-2", Seed: 1, Clock: v}))(t)
	s := &story{Region: r, t: t, clock: v, drained: make(chan string, 16), pods: map[string]*httptest.Server{}}
	log := slog.New(told{slog.DiscardHandler, s.drained})
	s.data = elb.New(elb.Options{Region: r, Dial: s.dial, Log: log})
	protocol := map[string]string{region.Application: "HTTP", region.Network: "TCP"}[kind]
	s.balancer = must(r.CreateLoadBalancer(region.LoadBalancer{
		Name: "game", Type: kind, Subnets: []string{r.Subnets()[0].ID, r.Subnets()[1].ID},
	}))(t)
	s.group = must(r.CreateTargetGroup(region.TargetGroup{
		TargetGroupName: "pods", Protocol: protocol, Port: 80, TargetType: "ip",
		HealthCheck: region.HealthCheck{HealthCheckIntervalSeconds: 5, HealthCheckTimeoutSeconds: 2},
	}))(t)
	s.listener = must(r.CreateListener(region.Listener{
		LoadBalancerARN: s.balancer.ARN, Port: freePort(t), Protocol: protocol, DefaultActions: s.forward(),
	}))(t)
	v.Advance(time.Minute) // until the load balancer is active
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.data.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; _ = r.Close() })
	return s
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	return porttest.Free(t, 16700, 16799)
}

func (s *story) forward() []region.ListenerAction {
	return []region.ListenerAction{{Type: "forward", TargetGroupARN: s.group.TargetGroupARN}}
}

// dial connects to the server behind a pod's address.
func (s *story) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	server := s.pods[address]
	s.mu.Unlock()
	if server == nil {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
}

// pod starts a server behind a pod's address and registers it.
func (s *story) pod(ip string, h http.HandlerFunc) region.Target {
	s.t.Helper()
	server := httptest.NewServer(h)
	s.t.Cleanup(server.Close)
	s.mu.Lock()
	s.pods[ip+":80"] = server
	s.mu.Unlock()
	return s.register(ip)
}

func (s *story) register(ip string) region.Target {
	s.t.Helper()
	target := region.Target{ID: ip, Port: 80}
	if err := s.RegisterTargets(s.group.TargetGroupARN, []region.Target{target}); err != nil {
		s.t.Fatal(err)
	}
	return target
}

func (s *story) deregister(t region.Target) {
	s.t.Helper()
	if err := s.DeregisterTargets(s.group.TargetGroupARN, []region.Target{t}); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until a change of load balancing makes a condition true.
func (s *story) until(holds func() bool) {
	s.t.Helper()
	for {
		changed := s.LoadBalancingChanged()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-s.t.Context().Done():
			s.t.Fatal("it never came true")
		}
	}
}

func (s *story) untilState(target region.Target, state string) {
	s.t.Helper()
	s.until(func() bool {
		h, err := s.TargetHealth(s.group.TargetGroupARN, target)
		return err == nil && h.State == state
	})
}

// address returns host and port of the load balancer, once it listens.
func (s *story) address() (at string, a elb.Address) {
	s.t.Helper()
	for {
		a, ok := s.data.Address(s.balancer.DNSName)
		if ok {
			return fmt.Sprintf("%s:%d", a.IP, a.Ports[s.listener.Port]), a
		}
		if s.t.Context().Err() != nil {
			s.t.Fatal("it never listened")
		}
	}
}

// get sends a request to the load balancer and returns the status and body of the response.
func (s *story) get(host, path string) (int, string) {
	s.t.Helper()
	at, _ := s.address()
	req := must(http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+at+path, nil))(s.t)
	req.Host = host
	answer := must(http.DefaultClient.Do(req))(s.t)
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, string(must(io.ReadAll(answer.Body))(s.t))
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s %s", text, req.Header.Get("X-Forwarded-For"), req.Host)
	}
}

func TestRequestsGoToHealthyTargetsInTurn(t *testing.T) {
	s := begin(t, region.Application)
	a, b := s.pod("10.250.0.1", says("a")), s.pod("10.250.0.2", says("b"))
	sick := s.pod("10.250.0.3", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	s.untilState(a, region.TargetHealthy)
	s.untilState(b, region.TargetHealthy)
	seen := map[string]int{}
	for range 10 {
		status, body := s.get("game.example.com", "/")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		seen[body]++
	}
	if seen["a 127.0.0.1 game.example.com"] != 5 || seen["b 127.0.0.1 game.example.com"] != 5 {
		t.Errorf("answers %v", seen)
	}
	s.until(func() bool { // a busy machine's answer may come too late at first: Target.Timeout
		h, _ := s.TargetHealth(s.group.TargetGroupARN, sick)
		return h.State == region.TargetUnhealthy && h.Reason == "Target.ResponseCodeMismatch" &&
			strings.Contains(h.Description, "[500]")
	})
}

// Names under localhost resolve to 127.0.0.1, where a request's Host header selects the load balancer.
func TestALoadBalancerIsReachedByItsName(t *testing.T) {
	s := begin(t, region.Application)
	s.untilState(s.pod("10.250.0.1", says("a")), region.TargetHealthy)
	_, a := s.address()
	if a.Name != s.balancer.DNSName {
		t.Fatalf("address %+v, want the name %s", a, s.balancer.DNSName)
	}
	for host, want := range map[string]int{a.Name: http.StatusOK, "other.localhost": http.StatusMisdirectedRequest} {
		req := must(http.NewRequestWithContext(t.Context(), http.MethodGet,
			fmt.Sprintf("http://127.0.0.1:%d/", a.Ports[s.listener.Port]), nil))(t)
		req.Host = fmt.Sprintf("%s:%d", host, a.Ports[s.listener.Port])
		answer := must(http.DefaultClient.Do(req))(t)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, answer.StatusCode, want)
		}
	}
}

// The port of a deleted load balancer is free again, also on the address to which its name leads.
func TestADeletedLoadBalancerFreesItsPorts(t *testing.T) {
	s := begin(t, region.Application)
	if _, a := s.address(); a.Name == "" {
		t.Fatal("its name leads nowhere")
	}
	if err := s.DeleteLoadBalancer(s.balancer.ARN); err != nil {
		t.Fatal(err)
	}
	for t.Context().Err() == nil {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", s.listener.Port))
		if err == nil {
			_ = l.Close()
			return
		}
	}
}

func TestTheFirstRuleThatMatchesChoosesTheAction(t *testing.T) {
	s := begin(t, region.Application)
	s.untilState(s.pod("10.250.0.1", says("a")), region.TargetHealthy)
	rule := func(priority int, field, value string, a region.ListenerAction) {
		t.Helper()
		must(s.CreateRule(region.ListenerRule{
			ListenerARN: s.listener.ListenerARN, Priority: priority, Actions: []region.ListenerAction{a},
			Conditions: []region.RuleCondition{{Field: field, Values: []string{value}}},
		}))(t)
	}
	fixed := func(code, body string) region.ListenerAction {
		return region.ListenerAction{
			Type: "fixed-response", FixedResponseConfig: &region.FixedResponse{StatusCode: code, MessageBody: body},
		}
	}
	rule(2, "path-pattern", "/api/*", fixed("404", "second"))
	rule(1, "host-header", "*.example.org", fixed("410", "first"))
	want := func(host, path, body string) {
		t.Helper()
		for { // a rule takes effect shortly after it was created
			if _, got := s.get(host, path); strings.HasPrefix(got, body) {
				return
			} else if t.Context().Err() != nil {
				t.Fatalf("%s%s: %q, want %q", host, path, got, body)
			}
		}
	}
	want("a.example.org", "/api/x", "first")
	want("b.example.com", "/api/x", "second")
	want("b.example.com", "/apix", "a ")
}

func TestASimulatedPodAnswers503WithTheReason(t *testing.T) {
	for _, kind := range []string{region.Application, region.Network} {
		t.Run(kind, func(t *testing.T) {
			s := begin(t, kind)
			image := must(s.Parameter(
				"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"))(t)
			must(s.CreateLaunchTemplate("node", region.TemplateData{ImageID: image}, nil))(t)
			fleet := must(s.CreateFleet(region.FleetRequest{
				CapacityType: region.OnDemand, Total: 1, Overrides: []region.Override{{
					TemplateName: "node", InstanceType: "m5.large", Zone: s.Zones()[0].Name,
				}},
			}))(t)
			instance := fleet.Launched[0].IDs[0]
			ip := must(s.AssignPodIP(instance, "uid"))(t)
			s.untilState(s.register(ip.String()), region.TargetHealthy)
			status, body := s.get("x", "/")
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "simulated pod on instance "+instance) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestWithoutATargetTheReasonIsTold(t *testing.T) {
	s := begin(t, region.Application)
	s.address()
	if status, body := s.get("x", "/"); status != 503 || !strings.Contains(body, "target group pods has no registered targets") {
		t.Errorf("%d %s", status, body)
	}
}

func TestADrainingTargetFinishesItsRequests(t *testing.T) {
	s := begin(t, region.Application)
	arrived, finish := make(chan struct{}), make(chan struct{})
	slow := s.pod("10.250.0.1", func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/slow" {
			close(arrived)
			<-finish
		}
		_, _ = io.WriteString(w, "slow")
	})
	s.untilState(slow, region.TargetHealthy)
	answer := make(chan string)
	go func() {
		_, body := s.get("x", "/slow")
		answer <- body
	}()
	<-arrived
	s.deregister(slow)
	s.untilState(s.pod("10.250.0.2", says("new")), region.TargetHealthy)
	for range 5 {
		if _, body := s.get("x", "/"); !strings.HasPrefix(body, "new") {
			t.Errorf("a draining target got a request: %s", body)
		}
	}
	if h, _ := s.TargetHealth(s.group.TargetGroupARN, slow); h.State != region.TargetDraining {
		t.Errorf("with a request in flight the target is %+v", h)
	}
	close(finish)
	if body := <-answer; body != "slow" {
		t.Errorf("the request in flight got %q", body)
	}
	if at := <-s.drained; at != slow.ID+":80" {
		t.Errorf("%s has drained", at)
	}
	s.clock.Advance(299 * time.Second) // the deregistration delay is 300 s
	s.untilState(slow, region.TargetDraining)
	s.clock.Advance(time.Second)
	s.untilState(slow, region.TargetUnused)
}

// The address of a pod that has ended serves the next one at once, although the old target is draining.
func TestADrainedTargetBeginsAnewWhenItIsRegisteredAgain(t *testing.T) {
	s := begin(t, region.Application)
	s.untilState(s.pod("10.250.0.1", says("old")), region.TargetHealthy)
	s.deregister(region.Target{ID: "10.250.0.1", Port: 80})
	<-s.drained
	s.untilState(s.pod("10.250.0.1", says("new")), region.TargetHealthy)
	if status, body := s.get("x", "/"); status != http.StatusOK || !strings.HasPrefix(body, "new") {
		t.Errorf("%d %s", status, body)
	}
}

// A draining target that is registered again returns to service: its requests go on, and it stays healthy.
func TestATargetRegisteredAgainKeepsItsRequests(t *testing.T) {
	s := begin(t, region.Application)
	arrived, finish := make(chan struct{}), make(chan struct{})
	pod := s.pod("10.250.0.1", func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/slow" {
			close(arrived)
			<-finish
		}
		_, _ = io.WriteString(w, "pod")
	})
	s.untilState(pod, region.TargetHealthy)
	answer := make(chan string)
	go func() {
		_, body := s.get("x", "/slow")
		answer <- body
	}()
	<-arrived
	until := func(want string) {
		t.Helper()
		for _, body := s.get("x", "/"); !strings.Contains(body, want); _, body = s.get("x", "/") {
			if t.Context().Err() != nil {
				t.Fatalf("the answer is never %q", want)
			}
		}
	}
	s.deregister(pod)
	until("is draining")
	s.register(pod.ID)
	until("pod")
	close(finish)
	if body := <-answer; body != "pod" {
		t.Errorf("the request in flight got %q", body)
	}
	if h, err := s.TargetHealth(s.group.TargetGroupARN, pod); err != nil || h.State != region.TargetHealthy {
		t.Errorf("the target is %+v, %v", h, err)
	}
}

// A cookie binds a client to its target while that is healthy.
func TestACookieBindsAClientToItsTarget(t *testing.T) {
	s := begin(t, region.Application)
	if _, err := s.ModifyTargetGroupAttributes(s.group.TargetGroupARN, map[string]string{
		"stickiness.enabled": "true", "stickiness.lb_cookie.duration_seconds": "60",
	}); err != nil {
		t.Fatal(err)
	}
	pods := map[string]region.Target{"a": s.pod("10.250.0.1", says("a")), "b": s.pod("10.250.0.2", says("b"))}
	for _, pod := range pods {
		s.untilState(pod, region.TargetHealthy)
	}
	client := &http.Client{Jar: must(cookiejar.New(nil))(t)}
	at, _ := s.address()
	get := func() string {
		answer := must(client.Get("http://" + at))(t)
		defer func() { _ = answer.Body.Close() }()
		pod, _, _ := strings.Cut(string(must(io.ReadAll(answer.Body))(t)), " ")
		return pod
	}
	first := get()
	for range 4 {
		if next := get(); next != first {
			t.Errorf("a client of %s comes to %s", first, next)
		}
	}
	s.deregister(pods[first])
	<-s.drained
	if next := get(); next == first {
		t.Errorf("a client comes to %s, which has drained", next)
	}
}

// Clients of a network load balancer are bound by their address.
func TestAnAddressBindsAClientToItsTarget(t *testing.T) {
	s := begin(t, region.Network)
	if _, err := s.ModifyTargetGroupAttributes(s.group.TargetGroupARN, map[string]string{"stickiness.enabled": "true"}); err != nil {
		t.Fatal(err)
	}
	for n, name := range []string{"a", "b"} {
		s.untilState(s.pod(fmt.Sprintf("10.250.0.%d", n+1), says(name)), region.TargetHealthy)
	}
	seen := map[string]bool{}
	at, _ := s.address()
	for range 5 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer := must(client.Get("http://" + at))(t)
		seen[string(must(io.ReadAll(answer.Body))(t))] = true
		_ = answer.Body.Close()
	}
	if len(seen) != 1 {
		t.Errorf("one client comes to %v", seen)
	}
}

// Pods are replaced one by one while clients keep sending requests. A pod ends once its last request has.
func TestARollingReplacementLosesNoRequest(t *testing.T) {
	s := begin(t, region.Application)
	old := []region.Target{s.pod("10.250.0.1", says("a")), s.pod("10.250.0.2", says("b")), s.pod("10.250.0.3", says("c"))}
	for _, target := range old {
		s.untilState(target, region.TargetHealthy)
	}
	at, _ := s.address()
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var asked, lost atomic.Int64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at+"/", strings.NewReader("move"))
				answer, err := client.Do(req)
				asked.Add(1)
				if err != nil {
					lost.Add(1)
					continue
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
					lost.Add(1)
				}
				_ = answer.Body.Close()
			}
		})
	}
	for n, target := range old {
		s.untilState(s.pod(fmt.Sprintf("10.250.1.%d", n+1), says("new")), region.TargetHealthy)
		s.deregister(target)
		<-s.drained
		s.mu.Lock()
		s.pods[target.ID+":80"].Close()
		delete(s.pods, target.ID+":80")
		s.mu.Unlock()
	}
	stop()
	clients.Wait()
	if lost.Load() > 0 || asked.Load() == 0 {
		t.Errorf("%d of %d requests were lost", lost.Load(), asked.Load())
	}
	t.Logf("%d requests", asked.Load())
}
