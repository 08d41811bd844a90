package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// prompt is a clock on which all waiting is over at once.
type prompt struct{ clock.Clock }

func (prompt) AfterFunc(_ time.Duration, f func()) clock.Timer { return clock.Real{}.AfterFunc(0, f) }

// watches is a log whose watches end one after the other.
type watches []func(news func([]record.Entry)) error

func (w *watches) Follow(_ context.Context, news func([]record.Entry)) error {
	next := (*w)[0]
	*w = (*w)[1:]
	return next(news)
}

func launches(ids ...string) []record.Entry {
	var out []record.Entry
	for i, id := range ids {
		at := time.Date(2026, 11, 22, 12, 0, i, 0, time.UTC)
		out = append(out, record.Entry{Decision: &record.Decision{ID: id, Time: at, Kind: record.Launch}})
	}
	return out
}

// API servers end watches. The next watch begins with all that is kept, and everything is printed once. A failure is
// reported once for as long as it lasts.
func TestDecisionsAreFollowedBeyondTheEndOfAWatch(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	down := func(func([]record.Entry)) error { return errors.New("connection refused") }
	log := watches{
		func(news func([]record.Entry)) error { news(launches("a", "b")); return nil },
		func(news func([]record.Entry)) error { news(launches("a", "b", "c")); return nil },
		down, down,
		func(news func([]record.Entry)) error {
			news(launches("a", "b", "c", "d"))
			interrupt()
			return nil
		},
	}
	var out, errs bytes.Buffer
	o := decisionsOptions{output: "name"}
	err := o.follow(ctx, follower{&log, prompt{clock.Real{}}, &out, &errs}, record.Fold(launches("a")), nil)
	if want := "decision/b\ndecision/c\ndecision/d\n"; err != nil || out.String() != want {
		t.Errorf("%v, printed %q, want %q", err, out.String(), want)
	}
	if want := "nodeless: decisions: the watch failed and is tried again: connection refused\n"; errs.String() != want {
		t.Errorf("reported %q, want %q", errs.String(), want)
	}
}

// What the log has dropped is forgotten: nothing more is printed about it.
func TestFollowingForgetsWhatTheLogHasDropped(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	late := func(of string) record.Entry {
		return record.Entry{Outcome: &record.Outcome{Of: of, Kind: record.Ready, Claim: "c", Time: time.Now()}}
	}
	now := clock.NewVirtual(time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC))
	log := watches{
		func(news func([]record.Entry)) error { news(launches("a", "b")); now.Advance(time.Hour); return nil },
		func(news func([]record.Entry)) error { return nil }, // it ended before it had shown anything
		func(news func([]record.Entry)) error { news(launches("b")); now.Advance(time.Hour); return nil },
		func(news func([]record.Entry)) error {
			news(launches("b"))
			news([]record.Entry{late("a"), late("b")})
			interrupt()
			return nil
		},
	}
	var out bytes.Buffer
	o := decisionsOptions{output: "name"}
	if err := o.follow(ctx, follower{&log, prompt{now}, &out, &out}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if want := "decision/a\ndecision/b\ndecision/b\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// Following ends with an error if the log is gone, and if nothing more can be printed.
func TestFollowingDecisionsEndsWithoutALogOrAReader(t *testing.T) {
	gone := fmt.Errorf("cluster c: %w", store.ErrNotKept)
	log := watches{func(func([]record.Entry)) error { return gone }}
	var out bytes.Buffer
	o := decisionsOptions{output: "yaml"}
	if err := o.follow(t.Context(), follower{&log, prompt{clock.Real{}}, &out, &out}, nil, nil); !errors.Is(err, gone) {
		t.Errorf("without a log: %v", err)
	}
	log = watches{func(news func([]record.Entry)) error { news(launches("a")); return nil }}
	if err := o.follow(t.Context(), follower{&log, prompt{clock.Real{}}, closed{}, &out}, nil, nil); !errors.Is(err, errClosed) {
		t.Errorf("without a reader: %v", err)
	}
}

// With -w, each update is a YAML document of its own.
func TestFollowedDecisionsAreYAMLDocuments(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	log := watches{
		func(news func([]record.Entry)) error { news(launches("a", "b")); return nil },
		func(news func([]record.Entry)) error { news(launches("a", "b", "c")); interrupt(); return nil },
	}
	var out bytes.Buffer
	o := decisionsOptions{output: "yaml"}
	if err := o.print(&out, record.Fold(launches("a")), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := o.follow(ctx, follower{&log, prompt{clock.Real{}}, &out, &out}, record.Fold(launches("a")), nil); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	var ids []string
	for d := yaml.NewDecoder(&out); ; {
		var list struct{ Items []struct{ ID string } }
		err := d.Decode(&list)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err, text)
		}
		for _, item := range list.Items {
			ids = append(ids, item.ID)
		}
		ids = append(ids, "---")
	}
	if got := strings.Join(ids, " "); got != "a --- b --- c ---" {
		t.Errorf("got %s from\n%s", got, text)
	}
}

// What prevents reading the decisions has a remedy.
func TestDecisionsThatCannotBeReadHaveARemedy(t *testing.T) {
	for code, want := range map[int]string{
		http.StatusUnauthorized: "does not accept the credentials of the kubeconfig, which may have expired; log in again",
		http.StatusForbidden:    store.ErrNotAllowed.Error(),
		http.StatusNotFound:     store.ErrNotKept.Error(),
		0:                       "cannot be reached; does it run",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/apis/nodeless.sh/v1alpha1/") || code == http.StatusUnauthorized {
				w.WriteHeader(code)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind": "APIResourceList", "groupVersion": "nodeless.sh/v1alpha1", "resources": [
				{"name": "decisionlogs", "kind": "DecisionLog"}]}`)
		}))
		defer server.Close()
		if code == 0 {
			server.Close()
		}
		_, _, err := readDecisions(t.Context(), &rest.Config{Host: server.URL}, io.Discard, "decisions")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", code, err, want)
		}
	}
}

var errClosed = errors.New("closed")

// closed is a pipe that nobody reads.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errClosed }
