package faults

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// State that libraries keep for the whole process must not carry time from one bubble, or from outside of any, into
// another.
func TestMain(m *testing.M) {
	// The runtime starts its signal-delivery goroutine at the first call of Notify.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	// The default handlers sleep until a millisecond has passed since the last error, whichever bubble that was in:
	// here, decades.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(context.Context, error, string, ...any) {}}
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // a run produces much garbage and little live data
	os.Exit(m.Run())
}
