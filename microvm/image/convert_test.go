package image

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Conversions wait for each other, so that many of them do not use all CPUs.
func TestConversionsAreLimited(t *testing.T) {
	s := newServer(t)
	img := program(t, "one")
	s.push(t, "app:1", img)
	p := open(t, Options{Transport: s.transport, Conversions: 1})
	p.converting <- struct{}{} // another image has the only slot
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Pull(ctx, Request{Reference: s.host + "/app:1"})
		ended <- err
	}()
	for deadline := time.Now().Add(time.Minute); !p.store.has(blobName(firstLayer(t, img))); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the layer was not downloaded")
		}
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the image did not wait: %v", err)
	}
	<-p.converting
	pulled(t, p, Request{Reference: s.host + "/app:1"})
	if len(p.converting) != 0 {
		t.Error("the place was not given back")
	}
}

// A conversion occupies its slot as long as the image is being read.
func TestConversionOutlivesItsPull(t *testing.T) {
	s := newServer(t)
	img := program(t, "one")
	s.push(t, "app:1", img)
	p := open(t, Options{Transport: s.transport, Conversions: 1})
	p.converting <- struct{}{}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Pull(t.Context(), Request{Reference: s.host + "/app:1"})
		ended <- err
	}()
	name := blobName(firstLayer(t, img))
	for deadline := time.Now().Add(time.Minute); !p.store.has(name); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the layer was not downloaded")
		}
	}
	layer := p.store.path(name) // from now on, reads of the layer block until the test writes it
	must(t, errors.Join(os.Remove(layer), syscall.Mkfifo(layer, 0o600)))
	<-p.converting
	read, err := os.OpenFile(layer, os.O_WRONLY, 0) // blocks until the conversion reads
	must(t, err)
	if len(p.converting) != 1 {
		t.Error("the image is being read, and has no place")
	}
	must(t, read.Close())
	says(t, <-ended, "uncompressed digest is")
	if len(p.converting) != 0 {
		t.Error("the place was not given back")
	}
}

// A conversion that takes too long for the image's size is abandoned.
func TestConversionTimeLimit(t *testing.T) {
	s := newServer(t)
	s.push(t, "app:1", program(t, "one"))
	p := open(t, Options{Transport: s.transport, ConversionTime: 1})
	_, err := p.Pull(t.Context(), Request{Reference: s.host + "/app:1"})
	says(t, err, "took longer than 1ns", "rebuild it")
	if left := leftovers(t, p.store.dir); len(left) > 0 || len(p.converting) > 0 {
		t.Errorf("left: %v, %d places", left, len(p.converting))
	}
}

func TestLargeImagesGetMoreTime(t *testing.T) {
	p := open(t, Options{})
	large := v1.Hash{Algorithm: "sha256", Hex: "aa"}
	p.store.files[blobName(large)] = &stored{bytes: 90 << 20}
	if got := p.conversionTime(&found{layers: []blob{{digest: large}, {digest: large}}}); got != 4*time.Minute {
		t.Errorf("two layers of 90 MiB have %s", got)
	}
}
