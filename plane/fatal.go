package plane

import (
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"unsafe"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // holds the variable linked below
)

// running is the control plane that runs in this process, or the last one that did.
var running atomic.Pointer[Plane]

// goroutineLabels returns the profiler labels of this goroutine. A goroutine inherits those of the one that started
// it.
//
//go:linkname goroutineLabels runtime/pprof.runtime_getProfLabel
func goroutineLabels() unsafe.Pointer

// own marks this goroutine, and all that it starts from now on, as the control plane's.
func (p *Plane) own() {
	pprof.SetGoroutineLabels(p.labels)
}

// owns reports whether this goroutine belongs to the control plane.
func (p *Plane) owns() (owns bool) {
	of := goroutineLabels()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.own()
		owns = goroutineLabels() == of
	}()
	<-done
	return owns
}

// fatalExit replaces os.Exit in klog.Fatal, so that the user gets an error rather than a stack trace. The goroutine
// ends, and the rest is shut down in order. An API server that is stopped before it is ready calls klog.Fatal half a
// minute later, which must not end a control plane started in the meantime.
func fatalExit(code int) {
	if p := running.Load(); p != nil && p.owns() {
		p.fail("control plane", &gaveUpError{code, logs.fatal()})
	}
	runtime.Goexit()
}

// gaveUpError means that a Kubernetes component tried to end the process.
type gaveUpError struct {
	code int
	why  string // what it logged
}

func (e *gaveUpError) Error() string {
	return fmt.Sprintf("a Kubernetes component exited with a fatal error (exit code %d): %s", e.code, e.why)
}

// exitHook does the same for etcd's logger: its Fatal exits the process and its Panic panics, in any goroutine of
// etcd.
type exitHook struct{ report func(error) }

func (h exitHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := fmt.Errorf("%s", e.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", e.Message, cause)
		}
	}
	h.report(err)
	runtime.Goexit()
}

// etcdLogger logs warnings and errors. It passes entries that etcd considers fatal to report.
func etcdLogger(report func(error)) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.AddSync(logs), zapcore.WarnLevel)
	hook := exitHook{report}
	return zap.New(core, zap.WithFatalHook(hook), zap.WithPanicHook(hook)).Named("etcd")
}

// The API server's etcd client logs to the terminal, through a logger that is created when the process starts and that
// no option changes. Its warnings about closed connections would disturb the program's own output.
//
//go:linkname apiserverEtcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var apiserverEtcdClientLogger *zap.Logger

func quietEtcdClient() {
	apiserverEtcdClientLogger = etcdLogger(func(error) {}).Named("client")
}
