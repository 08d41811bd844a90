package region_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// crash returns the region as it restarts after its process was killed: from the file as it is now, without Close.
func (p place) crash(c region.Config) place {
	p.t.Helper()
	c.Dir, c.Clock = copyOf(p.t, c.Dir), clock.NewVirtual(p.clock.Now())
	return open(p.t, c)
}

func TestACrashInTheMiddleOfEverythingLosesNothing(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	spot, ending := p.one(region.Spot), p.one(region.OnDemand)
	full := region.Pool{Type: "c5.large", Zone: p.zone(1), CapacityType: region.Spot}
	for _, err := range []error{
		p.CreateTags([]string{spot, p.Subnets()[0].ID}, map[string]string{"Name": "first"}),
		p.SetCapacity(full, 3),
		p.Interrupt(spot),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.CreateInstanceProfile("nodes", "/prod/", nil); err != nil {
		t.Fatal(err)
	}
	p.Fail("CreateFleet", &region.APIError{Code: "InternalError", Message: "injected"}, 1)
	if _, err := p.TerminateInstances([]string{ending}); err != nil {
		t.Fatal(err)
	}
	instances, subnets := p.Instances(), p.Subnets()

	p = p.crash(c)
	if got := p.Instances(); !reflect.DeepEqual(got, instances) {
		t.Errorf("after the crash\n%+v\nbefore\n%+v", got, instances)
	}
	if got := p.Subnets(); !reflect.DeepEqual(got, subnets) {
		t.Errorf("after the crash %+v, before %+v", got, subnets)
	}
	if n := p.Capacity(full); n != 3 {
		t.Errorf("the pool of 3 gives %d", n)
	}
	if _, err := p.InstanceProfile("nodes"); err != nil {
		t.Error(err)
	}
	_, err := p.Admit(t.Context(), "CreateFleet", "", "")
	wantCode(t, err, "InternalError")
	if n := p.notices("EC2 Spot Instance Interruption Warning", spot); n != 1 {
		t.Errorf("%d warnings wait", n)
	}
	p.clock.Advance(3 * time.Minute)
	if p.state(spot) != region.Terminated || p.state(ending) != region.Terminated {
		t.Errorf("in the end %s and %s", p.state(spot), p.state(ending))
	}
}

func TestWhatFellDueWhileNobodyRanHappensAtItsTime(t *testing.T) {
	dir := t.TempDir()
	p := seeded(t, region.Config{Dir: dir})
	id := p.one(region.Spot)
	if err := p.Interrupt(id); err != nil {
		t.Fatal(err)
	}
	later := open(t, region.Config{Dir: copyOf(t, dir), Clock: clock.NewVirtual(monday.Add(time.Hour / 2))})
	if i, _ := later.Instance(id); i.State != region.Terminated || !i.TerminatedAt.Before(monday.Add(3*time.Minute)) {
		t.Errorf("half an hour later: %s, since %s", i.State, i.TerminatedAt)
	}
}

func TestANameRestsBeforeItIsGivenAgain(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	before, _ := p.Instance(p.one(region.OnDemand))
	if _, err := p.TerminateInstances([]string{before.ID}); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Minute)
	p = p.crash(c)
	if after, _ := p.Instance(p.one(region.OnDemand)); after.PrivateDNS == before.PrivateDNS {
		t.Errorf("the next instance is called %s like the last", after.PrivateDNS)
	}
}

func TestAnInstanceKeepsItsUserDataWhenItsTemplateIsGone(t *testing.T) {
	c := region.Config{Dir: t.TempDir()}
	p := seeded(t, c)
	id := p.one(region.OnDemand)
	if _, err := p.DeleteLaunchTemplate("", "node"); err != nil {
		t.Fatal(err)
	}
	_, err := p.LaunchTemplate("", "node")
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
	for range 2 {
		p = p.crash(c)
		if i, _ := p.Instance(id); string(i.UserData) != "#!" {
			t.Errorf("user data %q", i.UserData)
		}
	}
}

func TestAClientTokenExpires(t *testing.T) {
	p := seeded(t, region.Config{})
	q := fleet(region.OnDemand, 1, p.override("m5.large", 0))
	q.ClientToken = "claim-1"
	p.launch(q)
	p.clock.Advance(49 * time.Hour)
	p.Instances()
	q.Total = 2
	if ids, _ := p.launch(q); len(ids) != 2 {
		t.Errorf("a token of the day before yesterday gave %v", ids)
	}
}

// Equal calls at equal times give equal regions, with and without crashes in between.
func TestARegionIsAFunctionOfSeedAndCalls(t *testing.T) {
	play := func(seed uint64, crashes bool) []region.Instance {
		c := region.Config{Seed: seed, SpotInterruptionsPerHour: 2, Dir: t.TempDir()}
		p := seeded(t, c)
		types := []string{"m5.large", "c5.xlarge", "r5.2xlarge", "p4d.24xlarge"}
		for n := range 60 {
			kind := []string{region.Spot, region.OnDemand}[n%2]
			ids, _ := p.launch(fleet(kind, 1+n%5, p.override(types[n%4], 0), p.override(types[(n+1)%4], 1)))
			if n%3 == 0 && len(ids) > 0 {
				if _, err := p.TerminateInstances(ids[:1]); err != nil {
					t.Fatal(err)
				}
			}
			p.clock.Advance(time.Duration(n) * time.Second)
			if crashes && n%20 == 10 {
				c.Dir = copyOf(t, c.Dir)
				c.Clock = clock.NewVirtual(p.clock.Now())
				p = open(t, c)
			}
		}
		return p.Instances()
	}
	for seed := range uint64(3) {
		once := play(seed+1, false)
		for crashes, again := range map[bool][]region.Instance{false: play(seed+1, false), true: play(seed+1, true)} {
			if d := difference(once, again); d != "" {
				t.Errorf("seed %d, with crashes %t: %s", seed+1, crashes, d)
			}
		}
	}
}

func difference(a, b []region.Instance) string {
	for n := range min(len(a), len(b)) {
		if !reflect.DeepEqual(a[n], b[n]) {
			return fmt.Sprintf("instance %d\n%+v\n%+v", n, a[n], b[n])
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d instances", len(a), len(b))
	}
	return ""
}

func TestNoDamageToTheStateFileCrashesUs(t *testing.T) {
	dir := t.TempDir()
	p := seeded(t, region.Config{Dir: dir})
	p.launch(fleet(region.OnDemand, 40, p.override("m5.large", 0)))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "us-west-2.db"))
	if err != nil {
		t.Fatal(err)
	}
	head := 2 * os.Getpagesize() // bbolt's two meta pages
	rest := len(whole) - head
	for name, data := range map[string][]byte{
		"cut short": whole[:head+os.Getpagesize()],
		"zeroed":    append(bytes.Clone(whole[:head]), make([]byte, rest)...),
		"garbled":   append(bytes.Clone(whole[:head]), bytes.Repeat([]byte{0xa5}, rest)...),
		"not JSON":  bytes.ReplaceAll(whole, []byte(`{"ID":"i-`), []byte(`["ID":"i-`)),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "us-west-2.db")
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := region.Open(region.Config{Name: "us-west-2", Dir: filepath.Dir(file)})
			if err == nil {
				_ = r.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "delete it") {
				t.Errorf("the error names neither file nor remedy: %v", err)
			}
		})
	}
}

func TestRulesOfASecurityGroupOutliveARestart(t *testing.T) {
	c := region.Config{Name: "us-west-2", Dir: t.TempDir()}
	p := open(t, c)
	group := p.SecurityGroups()[0].ID
	rule := region.SecurityGroupRule{Protocol: "tcp", From: 443, To: 443, Peer: "10.0.0.0/8"}
	if _, err := p.AuthorizeSecurityGroupIngress(group, []region.SecurityGroupRule{rule}); err != nil {
		t.Fatal(err)
	}
	p = p.crash(c)
	if got := p.SecurityGroups()[0].Ingress; len(got) != 1 || got[0].Peer != "10.0.0.0/8" || got[0].ID == "" {
		t.Errorf("after a restart the group has the rules %+v", got)
	}
}
