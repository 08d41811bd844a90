package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// deafQueue is a cloud whose notices cannot be read while err is set. There are none.
type deafQueue struct {
	cloud.Provider
	err   error
	calls int
}

func (q *deafQueue) Interruptions(context.Context) ([]cloud.Interruption, error) {
	q.calls++
	return nil, q.err
}

func (q *deafQueue) Done(context.Context, ...cloud.Interruption) error { return nil }

// told collects events.
type told []string

func (r *told) Event(o runtime.Object, kind, reason, _ string) {
	*r = append(*r, fmt.Sprint(o.(metav1.Object).GetName(), " ", kind, " ", reason))
}

// An unreachable queue is read less and less often, but often enough for spot instances' notices; the log and the
// NodePools say when it begins, has another cause or has lasted half an hour, and when it ends.
func TestAnUnreachableQueueIsReadLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, heard, said := &deafQueue{err: errors.New("no such host")}, &told{}, &strings.Builder{}
		p := process(serving(interceptor.Funcs{}), q, func(o *Options) {
			o.Recorder, o.Log = heard, slog.New(slog.NewTextHandler(said, nil))
		})
		p.cluster.Update(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "u"}})
		ctx, stop := context.WithCancel(t.Context())
		go p.interrupter.run(ctx)
		synctest.Wait()
		pass := func(d time.Duration, calls int, err error) {
			t.Helper()
			q.calls, q.err = 0, err
			for range d / time.Second {
				p.clock.(*clock.Virtual).Advance(time.Second)
				synctest.Wait()
			}
			if q.calls != calls {
				t.Errorf("in %s it is read %d times, want %d", d, q.calls, calls)
			}
		}
		pass(5*time.Second, 1, q.err)
		pass(9*time.Second, 0, q.err)
		pass(time.Second, 1, q.err)
		pass(20*time.Second, 1, q.err)
		pass(10*time.Minute, 20, fmt.Errorf("another socket: %w", q.err))
		pass(10*time.Minute, 20, fmt.Errorf("receive: %w", cloud.ErrUnauthorized))
		pass(30*time.Minute, 60, q.err)
		pass(30*time.Second, 1, nil) // it answers
		pass(30*time.Second, 30, nil)
		lost := "general Warning InterruptionNoticesUnreadable"
		if want := (told{lost, lost, lost, "general Normal InterruptionNoticesReadable"}); !slices.Equal(*heard, want) {
			t.Errorf("events %q, want %q", *heard, want)
		}
		if n := strings.Count(said.String(), "\n"); n != 4 {
			t.Errorf("%d lines of log, want 4:\n%s", n, said)
		}
		stop()
		synctest.Wait()
	})
}
