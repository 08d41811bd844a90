package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// server returns a client of a real API server that serves DecisionLogs.
func server(t testing.TB) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(planetest.Start(t).RESTConfig(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ring returns a client and a function that opens a small ring in a real API server; the ring is deleted at the end
// of the test.
func ring(t *testing.T) (client.Client, func() *store) {
	t.Helper()
	c := server(t)
	clear := func() {
		if err := c.DeleteAllOf(context.Background(), &v1alpha1.DecisionLog{}); err != nil {
			t.Fatal(err)
		}
	}
	clear()
	t.Cleanup(clear)
	return c, func() *store { return &store{client: c, pieces: 4, bytes: 4 << 10} }
}

// loaded loads the log into the store and returns the IDs of its decisions.
func loaded(t *testing.T, s *store) []string {
	t.Helper()
	var ids []string
	err := s.load(context.Background(), func(entries []record.Entry) {
		for _, r := range record.Fold(entries) {
			ids = append(ids, r.ID)
		}
	}, func(err error) { t.Log(err) })
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

var noise = rand.New(rand.NewPCG(1, 2))

// decisions returns decisions of about 600 bytes each when compressed.
func decisions(from, to int) []record.Entry {
	var out []record.Entry
	for i := from; i < to; i++ {
		why := make([]byte, 600)
		for j := range why {
			why[j] = byte('!' + noise.IntN(90))
		}
		at := time.Date(2026, 11, 22, 12, 0, i, 0, time.UTC)
		out = append(out, record.Entry{Decision: &record.Decision{
			ID: fmt.Sprintf("d%03d", i), Time: at,
			Kind: record.Launch, Why: string(why),
		}})
	}
	return out
}

// write appends all entries, in as many calls as that takes.
func write(t *testing.T, s *store, entries []record.Entry) {
	t.Helper()
	for len(entries) > 0 {
		n, err := s.append(context.Background(), entries)
		if err != nil || n == 0 {
			t.Fatalf("%d are written: %v", n, err)
		}
		entries = entries[n:]
	}
}

// When a piece is full the log continues in the next one, and when the ring is full it overwrites the oldest; another
// process continues from there.
func TestTheRingHoldsTheNewest(t *testing.T) {
	c, open := ring(t)
	s := open()
	loaded(t, s)
	for i := 0; i < 60; i += 3 {
		if i == 30 { // another process
			s = open()
			if ids := loaded(t, s); len(ids) == 0 || ids[len(ids)-1] != "d029" {
				t.Fatalf("another process reads %v", ids)
			}
		}
		write(t, s, decisions(i, i+3))
	}
	write(t, s, decisions(60, 75)) // more than a piece holds
	var logs v1alpha1.DecisionLogList
	if err := c.List(context.Background(), &logs); err != nil {
		t.Fatal(err)
	}
	if len(logs.Items) != 4 {
		t.Errorf("there are %d pieces, want 4", len(logs.Items))
	}
	for _, log := range logs.Items {
		if len(log.Data) > 4<<10 || log.Entries == 0 || log.From.After(log.To.Time) {
			t.Errorf("%s has %d bytes of %d entries from %s to %s", log.Name, len(log.Data), log.Entries, log.From, log.To)
		}
	}
	ids := loaded(t, open())
	if len(ids) < 12 || ids[len(ids)-1] != "d074" {
		t.Fatalf("kept are %v", ids)
	}
	for i, id := range ids {
		if want := fmt.Sprintf("d%03d", 75-len(ids)+i); id != want {
			t.Errorf("number %d is %s, want %s: the newest without a gap, each once", i, id, want)
		}
	}
}

// Two processes write: the second notices, reads again and continues after the first. A write whose response was lost
// is not repeated.
func TestTwoWritersLoseNothing(t *testing.T) {
	_, open := ring(t)
	first, second := open(), open()
	loaded(t, first)
	loaded(t, second)
	write(t, first, decisions(0, 2))
	mine := decisions(2, 4)
	if n, err := second.append(context.Background(), mine); n != 0 || !errors.Is(err, errMoved) {
		t.Fatalf("behind the other's back: %d, %v", n, err)
	}
	loaded(t, second)
	write(t, second, mine)
	unheard := decisions(4, 6)
	deaf := open()
	loaded(t, deaf)
	write(t, deaf, unheard) // it was written, but second does not know
	if _, err := second.append(context.Background(), unheard); !errors.Is(err, errMoved) {
		t.Fatalf("once more: %v", err)
	}
	loaded(t, second)
	write(t, second, unheard)
	if got, want := strings.Join(loaded(t, open()), " "), "d000 d001 d002 d003 d004 d005"; got != want {
		t.Errorf("kept is %s, want %s", got, want)
	}
}

// If a piece has been overwritten with nonsense or deleted, the rest is read, and the log continues.
func TestADamagedPieceIsPassedOver(t *testing.T) {
	c, open := ring(t)
	s := open()
	loaded(t, s)
	write(t, s, decisions(0, 12))
	var logs v1alpha1.DecisionLogList
	if err := c.List(context.Background(), &logs); err != nil || len(logs.Items) < 2 {
		t.Fatal(len(logs.Items), err)
	}
	last := &logs.Items[len(logs.Items)-1]
	last.Data = []byte("nonsense")
	if err := c.Update(context.Background(), last); err != nil {
		t.Fatal(err)
	}
	s = open()
	kept := len(loaded(t, s))
	write(t, s, decisions(20, 22))
	if err := c.Delete(context.Background(), &logs.Items[0]); err != nil {
		t.Fatal(err)
	}
	s2 := open()
	ids := loaded(t, s2)
	if len(ids) >= kept+2 || ids[len(ids)-1] != "d021" {
		t.Errorf("kept is %v", ids)
	}
	r, err := NewReader(planetest.Start(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	reading, err := r.Read(context.Background())
	if err != nil || len(reading.Records) != len(ids) || len(reading.Damaged) != 1 ||
		!strings.Contains(reading.Damaged[0].Error(), last.Name) {
		t.Errorf("a reader has %d records, %v, %v", len(reading.Records), reading.Damaged, err)
	}
}

// life returns all entries about one node.
func life(n int, at time.Time) []record.Entry {
	id, claim, node := fmt.Sprintf("%010x", uint64(n)*2654435761), fmt.Sprintf("general-%05x", n),
		fmt.Sprintf("ip-10-%d-%d-%d.us-west-2.compute.internal", n>>16&255, n>>8&255, n&255)
	offer := record.Offer{Type: "m5.large", Zone: "us-west-2a", CapacityType: "spot", DollarsPerHour: 0.0361}
	d := &record.Decision{
		ID: id, Time: at, Snapshot: id, Kind: record.Launch,
		Why:      "m5.large spot in us-west-2a at $0.0361/h for 10 pods of general",
		Launched: []record.LaunchedNode{{Claim: claim, Pool: "general", Chosen: offer, RunnerUp: &offer, Types: 41}},
	}
	for p := range 10 {
		d.Pods = append(d.Pods, fmt.Sprintf("shop/web-7fb4c9-%05x", n*10+p))
	}
	return []record.Entry{
		{Decision: d},
		{Outcome: &record.Outcome{
			Of: id, Kind: record.Ready, Time: at.Add(40 * time.Second), Claim: claim, Node: node,
			Seconds: 40, Offer: &offer,
		}},
		{Outcome: &record.Outcome{
			Of: id, Kind: record.Terminated, Time: at.Add(time.Minute), Claim: claim, Node: node,
			Seconds: 60,
		}},
	}
}
