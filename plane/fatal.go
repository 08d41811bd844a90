package plane

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	_ "unsafe" // for the link below

	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // holds the variable linked below
)

// onFatal is called when a component wants to end the process. It is set while a control plane runs.
var onFatal atomic.Pointer[func(error)]

func reportFatal(err error) {
	if f := onFatal.Load(); f != nil {
		(*f)(err)
	}
}

// fatalExit replaces os.Exit in klog.Fatal, so that the user gets an error rather than a stack. The goroutine ends; the
// rest is shut down in order. What klog.Fatal logs just before says why.
func fatalExit(code int) {
	reportFatal(fmt.Errorf("a Kubernetes component gave up (exit code %d); the last that was logged: %s", code,
		logs.lastLine()))
	runtime.Goexit()
}

// exitHook does the same for etcd's logger, whose Fatal exits and whose Panic panics in any of its goroutines.
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

// etcdLogger writes warnings and errors; it passes what etcd considers fatal to report.
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
