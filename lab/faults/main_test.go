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

// What libraries keep for the whole process must not carry time from one bubble, or from outside of any, into another.
func TestMain(m *testing.M) {
	// The runtime starts the goroutine that hands signals out when it is asked for the first one.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	// The usual handlers sleep until a millisecond has passed since the last error, wherever that was: here, decades.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(context.Context, error, string, ...any) {}}
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // a run leaves little behind and makes much
	os.Exit(m.Run())
}
