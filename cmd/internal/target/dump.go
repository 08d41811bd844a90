package target

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"

	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/printable"
)

// IsDump distinguishes Kubernetes objects from a scenario or a saved decision, by the beginning of a file.
var IsDump = regexp.MustCompile(`(?m)^\s*"?(apiVersion|items|kind)"?\s*:|^\s*\{\s*"(apiVersion|kind|items|metadata)"`)

// loadDump reads a cluster from a file of Kubernetes objects, - for stdin; gzip compression is detected. It reports
// skipped objects on notes.
func loadDump(ctx context.Context, stdin io.Reader, notes io.Writer, file string,
	o capture.Options,
) (*capture.Cluster, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--from: %w; write one: nodeless capture > %s", err, file)
		}
		defer f.Close()
		in = f
	}
	in, err := PlainText(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c, err := Load(ctx, in, file, o)
	if err != nil {
		return nil, err
	}
	if text := c.Skipped(); text != "" {
		fmt.Fprintf(notes, "%s: %s\n", file, printable.Text(text))
	}
	return c, nil
}

// Load reads a dump, trading speed for a small heap: reading an object makes garbage of several times the size of
// what is kept of it.
func Load(ctx context.Context, in io.Reader, file string, o capture.Options) (*capture.Cluster, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(30))
	return capture.Load(ctx, in, file, o)
}

// PlainText decompresses what gzip compressed.
func PlainText(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	return gzip.NewReader(b)
}

// Open reads the cluster of a command once: from the named dump, else the live cluster.
func (c *Flags) Open(ctx context.Context, stdin io.Reader, notes io.Writer,
	change func(*capture.Options),
) (*capture.Cluster, *Cluster, error) {
	if c.From == "" {
		t, err := c.Find()
		if err != nil {
			return nil, nil, err
		}
		change(&t.Options)
		cluster, err := capture.Read(ctx, t.REST, t.Options)
		var lacks *capture.MissingKind
		if errors.As(err, &lacks) && !lacks.Essential() {
			err = fmt.Errorf("%w; or go on without, and be told what is not known for that: --partial", err)
		}
		return cluster, t, err
	}
	if c.Kubeconfig != "" || c.Context != "" || c.As != "" || c.Prices == "aws" {
		return nil, nil, fmt.Errorf("--from reads a file: leave out --kubeconfig, --context, --as and --prices aws")
	}
	if c.Scheduler.Spreads() {
		return nil, nil, fmt.Errorf("--scheduler-config: default topology spread constraints count pods by their Services " +
			"and controllers, which the file of --from does not have")
	}
	t := &Cluster{Namespace: cmp.Or(c.Namespace, "default"), Of: c.From, Options: capture.Options{
		Region: c.region, Scheduler: c.Scheduler,
		DefaultRegion: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	}}
	change(&t.Options)
	cluster, err := loadDump(ctx, stdin, notes, c.From, t.Options)
	return cluster, t, err
}
