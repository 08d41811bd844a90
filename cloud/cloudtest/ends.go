package cloudtest

import (
	"context"
	"errors"
	"sync"

	"github.com/nodeless/nodeless/cloud"
)

func (t *teller) terminateTwice() {
	m := t.launch(t.request("mortal")).Instance
	for range 2 {
		if err := t.p.Terminate(context.Background(), m.ID); err != nil && !errors.Is(err, cloud.ErrNotFound) {
			t.Fatalf("terminate: %v", err)
		}
	}
	t.alive(0)
	t.cloud.Settle(t.T)
	if err := t.p.Terminate(context.Background(), m.ID); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("terminate an instance that is gone: %v, want ErrNotFound", err)
	}
}

func (t *teller) gone() {
	m := t.launch(t.request("leaver")).Instance
	stays := t.launch(t.request("stayer")).Instance
	if got, err := t.p.Get(context.Background(), m.ID); err != nil || got.Claim != "leaver" || keyOf(got) != keyOf(m) ||
		got.ProviderID != m.ProviderID {
		t.Errorf("get gives %+v, %v; launched was %+v", got, err, m)
	}
	if err := t.p.Terminate(context.Background(), m.ID); err != nil {
		t.Fatalf("terminate: %v", err)
	}
	t.cloud.Settle(t.T)
	if got, err := t.p.Get(context.Background(), m.ID); !errors.Is(err, cloud.ErrNotFound) {
		t.Errorf("get an instance that is gone: %+v, %v, want ErrNotFound", got, err)
	}
	if _, there := t.listed("leaver"); there {
		t.Error("list still has the instance that is gone")
	}
	if got, _ := t.listed("stayer"); got.ID != stays.ID {
		t.Errorf("list lost the other instance: %+v", got)
	}
}

func (t *teller) unknown() {
	m := t.launch(t.request("neighbour")).Instance
	ids := []string{m.ID, "i-0123456789abcdef0"}
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { _, errs[i] = t.p.Get(context.Background(), id) })
	}
	all.Wait()
	if errs[0] != nil || !errors.Is(errs[1], cloud.ErrNotFound) {
		t.Errorf("get known and unknown together: %v", errs)
	}
	for i, id := range ids {
		all.Go(func() { errs[i] = t.p.Terminate(context.Background(), id) })
	}
	all.Wait()
	if errs[0] != nil || !errors.Is(errs[1], cloud.ErrNotFound) {
		t.Errorf("terminate known and unknown together: %v", errs)
	}
	t.alive(0)
}

func (t *teller) foundAgain() {
	m := t.launch(t.request("lost")).Instance
	t.p = t.cloud.Connect(t.T)
	found, there := t.listed("lost")
	if !there || found.ID != m.ID || found.Pool != "general" || found.Class != t.cloud.Ready.Name ||
		keyOf(found) != keyOf(m) {
		t.Errorf("found %+v, launched was %+v", found, m)
	}
}
