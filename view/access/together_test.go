package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// slow is an API server that identifies every token as ann, once it may answer.
type slow struct{ answer chan struct{} }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		<-s.answer
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"status":{"authenticated":true,"allowed":true,"user":{"username":"ann"}}}`)),
	}, nil
}

// Concurrent requests with the same token share one request to the API server. The first caller may leave: the others
// get the answer.
func TestTheAnswerOutlivesWhoAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := slow{make(chan struct{})}
		config := &rest.Config{
			Host: "http://api", Transport: server,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		}
		r, err := New(config, clock.Real{}, func() []string { return nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		review := func(ctx context.Context, token string) chan error {
			done := make(chan error, 1)
			go func() {
				rights, err := r.Review(ctx, token)
				if err == nil && rights.User != "ann" {
					err = fmt.Errorf("they are %q", rights.User)
				}
				done <- err
			}()
			synctest.Wait() // the request was sent
			return done
		}
		var all []chan error
		for i := range atOnce { // all slots are taken
			all = append(all, review(t.Context(), fmt.Sprint("other-", i)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := review(ctx, "shared")
		all = append(all, review(t.Context(), "shared"))
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("who went is told %v", err)
		}
		close(server.answer)
		for _, done := range all {
			if err := <-done; err != nil {
				t.Errorf("who stayed is told: %v", err)
			}
		}
	})
}
