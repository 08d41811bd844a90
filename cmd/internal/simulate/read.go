package simulate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/printable"
	"github.com/nodeless/nodeless/lab/scenario"
)

// mostInput is the maximum size in bytes of a file that simulate reads.
const mostInput = 256 << 20

// readCluster reads a dump, a scenario or a saved case, and the plan that the scenario expects, nil if there is none. A
// dump has no policy: it gets that of a controller without flags.
func (o *simulateOptions) readCluster(cmd *cobra.Command, file string) (*model.Snapshot, model.Policy, *string, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, model.Policy{}, nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := target.PlainText(in)
	if err != nil {
		return nil, model.Policy{}, nil, err
	}
	buffered := bufio.NewReaderSize(text, 1<<16)
	if head, _ := buffered.Peek(4096); target.IsDump.Match(head) {
		s, err := o.readDump(cmd, buffered, file)
		return s, model.Defaults(), nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(buffered, mostInput+1))
	if err != nil {
		return nil, model.Policy{}, nil, err
	}
	return readText(raw)
}

// readDump reads a dump of Kubernetes objects.
func (o *simulateOptions) readDump(cmd *cobra.Command, in io.Reader, file string) (*model.Snapshot, error) {
	c, err := target.Load(cmd.Context(), in, file, capture.Options{Region: o.region})
	if err != nil {
		return nil, err
	}
	for _, note := range append(c.Assumed(), c.Skipped(), "prices: "+c.Prices()) {
		if note != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), printable.Text(note))
		}
	}
	return c.Snapshot(), nil
}

// readText reads a saved case or a scenario.
func readText(raw []byte) (*model.Snapshot, model.Policy, *string, error) {
	if len(raw) > mostInput {
		return nil, model.Policy{}, nil, fmt.Errorf("more than %d MiB", mostInput>>20)
	}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		c, err := scenario.ReadJSON(bytes.NewReader(raw))
		return c.Snapshot, c.Policy, nil, err
	}
	cluster, want := cutExpected(strings.ReplaceAll(string(raw), "\r\n", "\n"))
	s, policy, err := scenario.Parse(cluster)
	if err != nil {
		return nil, policy, nil, err
	}
	if len(s.Pending)+len(s.Nodes)+len(s.Pools) == 0 {
		return nil, policy, nil, fmt.Errorf(
			"nothing is declared: want lines such as \"pool general\" and \"pods 10 web cpu=1\"")
	}
	return s, policy, want, nil
}

// cutExpected splits a scenario at its first line of ten or more dashes.
func cutExpected(text string) (string, *string) {
	at := 0
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); len(trimmed) >= 10 && strings.Trim(trimmed, "-") == "" {
			want := text[at+len(line):]
			return text[:at], &want
		}
		at += len(line)
	}
	return text, nil
}
