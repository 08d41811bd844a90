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

// onFatal is told when a component wants to end the process. It is set while a control plane runs.
var onFatal atomic.Pointer[func(error)]

func reportFatal(err error) {
	if f := onFatal.Load(); f != nil {
		(*f)(err)
	}
}

// fatalExit stands in for os.Exit in klog.Fatal: the process belongs to the user, who is to read an error and not a
// stack. The goroutine ends; the rest is taken down in order.
func fatalExit(code int) {
	reportFatal(fmt.Errorf("a Kubernetes component gave up (exit code %d)", code))
	runtime.Goexit()
}

// goneHook does the same for etcd's logger, whose Fatal exits and whose Panic panics, in any of its goroutines.
type goneHook struct{ report func(error) }

func (h goneHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := fmt.Errorf("%s", e.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", e.Message, cause)
		}
	}
	h.report(err)
	runtime.Goexit()
}

// etcdLogger writes warnings and worse; report is told of what etcd considers fatal.
func etcdLogger(report func(error)) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.AddSync(logs), zapcore.WarnLevel)
	hook := goneHook{report}
	return zap.New(core, zap.WithFatalHook(hook), zap.WithPanicHook(hook)).Named("etcd")
}

// The API server's etcd client logs to the terminal, through a logger made when the process starts and offered for
// change nowhere; its warnings about connections that end would stand between the lines the user reads.
//
//go:linkname apiserverEtcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var apiserverEtcdClientLogger *zap.Logger

func quietEtcdClient() {
	apiserverEtcdClientLogger = etcdLogger(func(error) {}).Named("client")
}
