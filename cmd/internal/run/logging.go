package run

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

// startLog opens the controller's log, and makes the libraries of Kubernetes and Go write to it, too.
func (s *settings) startLog() (*slog.Logger, error) {
	log, err := s.openLogger()
	if err == nil {
		program.LogTo(log)
	}
	return log, err
}

// openLogger opens the controller's log.
func (s *settings) openLogger() (*slog.Logger, error) {
	level, err := s.level()
	if err != nil {
		return nil, err
	}
	to, err := outputs("log-output-paths", s.logPaths)
	if err != nil {
		return nil, err
	}
	trouble, err := outputs("log-error-output-paths", s.logErrPaths)
	if err != nil {
		return nil, err
	}
	w := &logWriter{to: to, trouble: trouble}
	o := &slog.HandlerOptions{Level: level}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}

// outputs opens stdout, stderr or files.
func outputs(flag, paths string) (io.Writer, error) {
	var all []io.Writer
	for path := range strings.SplitSeq(paths, ",") {
		switch path = strings.TrimSpace(path); path {
		case "":
		case "stdout":
			all = append(all, os.Stdout)
		case "stderr":
			all = append(all, os.Stderr)
		default:
			f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, fmt.Errorf("--%s: %w; use stdout, stderr or files that can be written", flag, err)
			}
			all = append(all, f)
		}
	}
	return io.MultiWriter(all...), nil
}

// logWriter reports elsewhere, once, that the log cannot be written.
type logWriter struct {
	to, trouble io.Writer
	once        sync.Once
}

func (w *logWriter) Write(line []byte) (int, error) {
	n, err := w.to.Write(line)
	if err != nil {
		w.once.Do(func() { fmt.Fprintf(w.trouble, "nodeless: the log cannot be written: %v\n", err) })
	}
	return n, err
}
