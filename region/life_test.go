package region_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/region"
)

func TestASpotInstanceIsWarnedAndTakenTwoMinutesLater(t *testing.T) {
	p := seeded(t, region.Config{})
	id, other := p.one(region.Spot), p.one(region.OnDemand)
	p.clock.Advance(5 * time.Minute)
	wantCode(t, p.Interrupt(other), "InvalidParameterValue")
	if err := p.Interrupt(id); err != nil {
		t.Fatal(err)
	}
	if p.notices("EC2 Spot Instance Interruption Warning", id) != 1 {
		t.Error("no warning came")
	}
	p.clock.Advance(2*time.Minute - time.Second)
	if p.state(id) != region.Running {
		t.Errorf("before the two minutes are over it is %s", p.state(id))
	}
	p.clock.Advance(time.Second)
	if i, _ := p.Instance(id); i.State != region.ShuttingDown || i.ReasonCode != "Server.SpotInstanceTermination" {
		t.Errorf("after two minutes it is %s by %s", i.State, i.ReasonCode)
	}
	p.clock.Advance(time.Minute)
	if p.state(id) != region.Terminated || p.state(other) != region.Running {
		t.Errorf("in the end %s, the other %s", p.state(id), p.state(other))
	}
}

// notices removes all messages from the queue and counts those of a kind about an instance.
func (p place) notices(kind, id string) int {
	p.t.Helper()
	n := 0
	for {
		list, err := p.ReceiveMessage("prod", 10, time.Minute)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(list) == 0 {
			return n
		}
		for _, m := range list {
			var e struct {
				DetailType string            `json:"detail-type"`
				Detail     map[string]string `json:"detail"`
			}
			if err := json.Unmarshal([]byte(m.Body), &e); err != nil {
				p.t.Fatal(err)
			}
			if e.DetailType == kind && e.Detail["instance-id"] == id {
				n++
			}
			if err := p.DeleteMessage("prod", m.Receipt); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

func TestCallsBeyondTheLimitAreRefusedUntilTimePasses(t *testing.T) {
	p := open(t, region.Config{Throttle: map[string]region.Bucket{"CreateFleet": {Size: 2, PerSecond: 1}}})
	call := func(api string) error {
		done, err := p.Admit(t.Context(), api, "", "")
		if err == nil {
			done(nil)
		}
		return err
	}
	for n := range 3 {
		if err := call("CreateFleet"); n < 2 && err != nil {
			t.Errorf("call %d: %v", n, err)
		} else if n == 2 {
			wantCode(t, err, "RequestLimitExceeded")
		}
	}
	if err := call("DescribeInstances"); err != nil {
		t.Errorf("a call without limit: %v", err)
	}
	p.clock.Advance(time.Second)
	if err := call("CreateFleet"); err != nil {
		t.Errorf("a second later: %v", err)
	}
	if err := p.Counters()["CreateFleet"]; err != 4 {
		t.Errorf("%d calls counted, want 4", err)
	}
}

func TestInjectedErrorsComeAsOftenAsTold(t *testing.T) {
	p := open(t, region.Config{})
	p.Fail("CreateFleet", &region.APIError{Code: "Unavailable", Message: "gone fishing"}, 2)
	for n := range 3 {
		done, err := p.Admit(t.Context(), "CreateFleet", "", "")
		if n < 2 {
			wantCode(t, err, "Unavailable")
			continue
		}
		if err != nil {
			t.Fatalf("the third call: %v", err)
		}
		done(nil)
	}
}

func TestSpotPricesAreTheSameInEveryRunAndBounded(t *testing.T) {
	a, b := open(t, region.Config{}), open(t, region.Config{})
	moved := false
	for _, typeName := range []string{"m5.large", "c5.4xlarge", "g5.xlarge"} {
		average, ok := catalog.Of("us-west-2").SpotAverage(a.zone(0), typeName)
		onDemand, _ := catalog.Of("us-west-2").OnDemand(typeName)
		if !ok {
			t.Fatalf("%s is not sold as spot in %s", typeName, a.zone(0))
		}
		for hour := range 24 * 30 {
			at := monday.Add(time.Duration(hour) * time.Hour)
			x, _ := a.SpotPrice(typeName, a.zone(0), at)
			y, _ := b.SpotPrice(typeName, a.zone(0), at)
			if x != y {
				t.Fatalf("%s at %s costs %d and %d", typeName, at, x, y)
			}
			if low, top := average*6/10-1, min(average*17/10+1, max(onDemand, average)); x < low || x > top {
				t.Errorf("%s at %s costs %d, outside %d to %d", typeName, at, x, low, top)
			}
			moved = moved || x != average
		}
	}
	if !moved {
		t.Error("no price moved in a month")
	}
}

func TestPodsGetAddressesWithinWhatTheirInstanceHolds(t *testing.T) {
	p := seeded(t, region.Config{})
	id := p.one(region.OnDemand) // m5.large: 3 interfaces of 10 addresses, one of each its own
	p.SetCNI(id, catalog.CNI{MinimumIP: 1}, 0)
	seen := map[string]bool{}
	for n := range 27 {
		ip, err := p.AssignPodIP(id, fmt.Sprintf("pod-%d", n))
		if err != nil || seen[ip.String()] || !p.Subnets()[0].CIDR.Contains(ip) {
			t.Fatalf("pod %d: %s, %v", n, ip, err)
		}
		seen[ip.String()] = true
	}
	_, err := p.AssignPodIP(id, "one too many")
	wantCode(t, err, "PrivateIpAddressLimitExceeded")
	if most := catalog.MaxPods(p.Type("m5.large"), 0, false); most != 27+2 {
		t.Errorf("its node takes %d pods, want one for each address and two on its own: aws-node and kube-proxy", most)
	}
	first := p.PodAddresses()["pod-0"].IP
	if again, err := p.AssignPodIP(id, "pod-0"); again != first || err != nil {
		t.Errorf("asked again pod-0 has %s, before %s, %v", again, first, err)
	}
	p.ReleasePodIP("pod-0")
	p.ReleasePodIP("nobody")
	_, err = p.AssignPodIP(id, "pod-27")
	wantCode(t, err, "PrivateIpAddressLimitExceeded")
	p.clock.Advance(30 * time.Second)
	if _, err := p.AssignPodIP(id, "pod-27"); err != nil {
		t.Errorf("half a minute after %s was released: %v", first, err)
	}
	if _, err := p.TerminateInstances([]string{id}); err != nil || len(p.PodAddresses()) != 0 {
		t.Errorf("after the instance's end %d addresses are held, %v", len(p.PodAddresses()), err)
	}
}

// Without any component of EKS, each pod that the kubelet accepts gets an address.
func TestWithoutTheVPCCNIEachPodOfAKubeletGetsAnAddress(t *testing.T) {
	p := seeded(t, region.Config{})
	id := p.one(region.OnDemand)
	for n := range catalog.MaxPods(p.Type("m5.large"), 0, false) {
		if _, err := p.AssignPodIP(id, fmt.Sprintf("pod-%d", n)); err != nil {
			t.Fatalf("pod %d: %v", n, err)
		}
	}
}

func TestAWatchTellsEverythingInOrder(t *testing.T) {
	p := seeded(t, region.Config{})
	old := p.one(region.OnDemand)
	p.clock.Advance(5 * time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	events := p.Watch(ctx)
	id := p.one(region.OnDemand)
	p.clock.Advance(5 * time.Minute) // meanwhile the watch is not read
	if _, err := p.TerminateInstances([]string{id}); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	for n, want := range []region.Event{
		{Kind: region.EventBooted, Instance: region.Instance{ID: old}},
		{Kind: region.EventCreated, Instance: region.Instance{ID: id}},
		{Kind: region.EventRunning, Instance: region.Instance{ID: id}},
		{Kind: region.EventBooted, Instance: region.Instance{ID: id}},
		{Kind: region.EventShuttingDown, Instance: region.Instance{ID: id}},
		{Kind: region.EventTerminated, Instance: region.Instance{ID: id}},
	} {
		if got := <-events; got.Kind != want.Kind || got.Instance.ID != want.Instance.ID {
			t.Errorf("event %d: %s of %s, want %s of %s", n, got.Kind, got.Instance.ID, want.Kind, want.Instance.ID)
		}
	}
	cancel()
	if e, open := <-events; open {
		t.Errorf("after the end came %+v", e)
	}
}

func TestAnOldMessageHiddenByOneReaderComesToTheNext(t *testing.T) {
	p := seeded(t, region.Config{})
	if _, err := p.SendMessage("prod", "hello"); err != nil {
		t.Fatal(err)
	}
	receive := func() int {
		list, err := p.ReceiveMessage("prod", 10, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if a, b := receive(), receive(); a != 1 || b != 0 {
		t.Errorf("first %d messages, then %d", a, b)
	}
	p.clock.Advance(31 * time.Second)
	if n := receive(); n != 1 {
		t.Errorf("after the reader failed to delete it: %d messages", n)
	}
	_, err := p.ReceiveMessage("nobody", 1, 0)
	wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue")
}
