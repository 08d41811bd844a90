package program

import (
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// LogTo makes a log that of the whole program: the libraries of Go and Kubernetes write to it, too.
func LogTo(log *slog.Logger) {
	slog.SetDefault(log)
	klog.SetSlogLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
}
