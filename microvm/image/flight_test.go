package image

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestConcurrentPullsDownloadOnce(t *testing.T) {
	s := newServer(t)
	s.push(t, "app:1", program(t, "one"))
	p := open(t, Options{Transport: s.transport})
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			if img, err := p.Pull(t.Context(), Request{Reference: s.host + "/app:1"}); err != nil {
				t.Error(err)
			} else {
				img.Release()
			}
		})
	}
	group.Wait()
	if n := s.asked("GET", "/blobs/"); n != 2 { // the configuration and the layer
		t.Errorf("%d blobs were downloaded, want 2", n)
	}
}

// The caller that started a download may leave; the others get the image. Once all have left, the download ends.
func TestPullsSurviveTheFirstCaller(t *testing.T) {
	s := newServer(t)
	img := program(t, "one")
	s.push(t, "app:1", img)
	started, gone := make(chan struct{}, 10), make(chan struct{})
	var once sync.Once
	s.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			started <- struct{}{}
			select {
			case <-gone:
			case <-r.Context().Done():
			}
		}
		return false
	})
	defer once.Do(func() { close(gone) })
	p := open(t, Options{Transport: s.transport})
	ctx, leave := context.WithCancel(t.Context())
	first, second := make(chan error), make(chan error)
	go func() {
		_, err := p.Pull(ctx, Request{Reference: s.host + "/app:1"})
		first <- err
	}()
	<-started
	go func() {
		got, err := p.Pull(t.Context(), Request{Reference: s.host + "/app:1"})
		if err == nil {
			got.Release()
		}
		second <- err
	}()
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	for waiting := 0; waiting < 2; { // until both wait for the same disk
		p.disks.mu.Lock()
		waiting = p.disks.byName[diskName(id)].waiters
		p.disks.mu.Unlock()
		runtime.Gosched()
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	once.Do(func() { close(gone) })
	if err := <-second; err != nil {
		t.Errorf("who stayed got %v", err)
	}
}
