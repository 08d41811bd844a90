package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
	answers "github.com/nodeless/nodeless/explain/why"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/printable"
)

type decisionsOptions struct {
	cluster   target.Flags
	output    string
	watch     bool
	noHeaders bool
	limit     int
	since     time.Duration
}

func newDecisions() *cobra.Command {
	var o decisionsOptions
	c := &cobra.Command{
		Use:   "decisions [KIND/NAME]",
		Short: "List recent decisions, why they were made, and what came of them",
		Long: `Lists the decisions that the controller recorded in the cluster: which node was
launched for which pods, at what price, and what the next best would have cost;
which nodes were removed, why, and what replaced them; which pods got no node;
which nodes others removed. For each it tells the outcome: how long until the
node was ready, when it was terminated, or why the decision was abandoned.

With KIND/NAME it lists only decisions about that pod, node, nodeclaim or
nodepool, whether it still exists or not. "nodeless why KIND/NAME" explains the
same in more words; "nodeless savings" adds up what was saved.

The records (kubectl get decisionlogs) take at most 4 MiB; the oldest are
overwritten.`,
		Example: `  # The newest 30 decisions, and new ones as they are made
  nodeless decisions
  nodeless decisions -w

  # What happened to the nodes of a NodePool since yesterday?
  nodeless decisions nodepool/general-purpose --since 24h -o wide

  # Everything about a pod that may be gone
  nodeless decisions pod/web-7fb4-x2x -n shop -o yaml`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	o.cluster.AddCluster(c.Flags())
	o.cluster.AddNamespace(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "", "wide, name, json, yaml, "+output.Forms+"; by default a table")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "after listing, print new decisions until Ctrl-C")
	c.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print no column titles")
	c.Flags().IntVar(&o.limit, "limit", 30, "list at most this many, the newest; 0 = all")
	c.Flags().DurationVar(&o.since, "since", 0, "list only decisions that are at most this old; 0 = all")
	return c
}

func (o *decisionsOptions) run(ctx context.Context, out, errs io.Writer, args []string) error {
	if err := output.Check(o.output, "", "wide", "name"); err != nil {
		return err
	}
	if o.limit < 0 || o.since < 0 {
		return fmt.Errorf("--limit %d, --since %s: use no negative numbers", o.limit, o.since)
	}
	t, err := o.cluster.Find()
	if err != nil {
		return err
	}
	var of *answers.Subject
	if len(args) > 0 {
		subject, err := answers.Parse(t.Namespace, args...)
		if err == nil && subject.Workload() {
			err = fmt.Errorf("unknown kind %q: decisions are about a pod, a node, a nodeclaim or a nodepool", subject.Kind)
		}
		if err != nil {
			return err
		}
		of = &subject
	}
	r, all, err := readDecisions(ctx, t.REST, errs, "decisions")
	if err != nil {
		return err
	}
	now := t.Clock.Now()
	records := o.chosen(all, of, now)
	if len(records) == 0 && !o.watch && (o.output == "" || o.output == "wide") {
		fmt.Fprintln(errs, "nodeless: decisions: no recorded decision matches")
		return nil
	}
	if err := o.print(out, records, now); err != nil || !o.watch {
		return err
	}
	o.noHeaders = true // they are above what was printed first
	err = o.follow(ctx, follower{r, t.Clock, out, errs}, all, of)
	if apierrors.IsUnauthorized(err) {
		return capture.ExplainUnreachable(t.REST.Host, err)
	}
	return err
}

// readDecisions reads what the controller recorded, and reports on errs what cannot be read.
func readDecisions(ctx context.Context, cfg *rest.Config, errs io.Writer, note string) (*store.Reader, []record.Record,
	error,
) {
	r, err := store.NewReader(cfg)
	if err != nil {
		return nil, nil, err
	}
	reading, err := r.Read(ctx)
	if errors.Is(err, store.ErrNotKept) || errors.Is(err, store.ErrNotAllowed) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, capture.ExplainUnreachable(cfg.Host, err)
	}
	for _, damage := range reading.Damaged {
		fmt.Fprintf(errs, "nodeless: %s: %s\n", note, printable.Text(damage.Error()))
	}
	return r, reading.Records, nil
}

// chosen returns the requested records.
func (o *decisionsOptions) chosen(all []record.Record, of *answers.Subject, now time.Time) []record.Record {
	out := slices.Clone(all)
	if of != nil {
		name := of.Name
		if of.Kind == answers.PodKind {
			name = of.Namespace + "/" + of.Name
		}
		out = record.Of(out, of.Kind, name)
	}
	if o.since > 0 {
		out = slices.DeleteFunc(out, func(r record.Record) bool { return now.Sub(r.Time) > o.since })
	}
	if o.limit > 0 && len(out) > o.limit {
		out = out[len(out)-o.limit:]
	}
	return out
}

// watchPause is the time between the end of a watch and the next one.
const watchPause = time.Second

// follower is what following a log needs; *store.Reader is a log.
type follower struct {
	log interface {
		Follow(ctx context.Context, news func([]record.Entry)) error
	}
	clock     clock.Clock
	out, errs io.Writer
}

// follow prints what is new whenever a piece of the log is written, until ctx is done. API servers end each watch
// after half an hour to an hour; a new one begins with all pieces, so nothing is missed.
func (o *decisionsOptions) follow(ctx context.Context, f follower, known []record.Record, of *answers.Subject) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l := newFollowedLog(known)
	unbounded := decisionsOptions{output: o.output}
	var failed error
	report := func(more []record.Entry) {
		now := f.clock.Now()
		if news := unbounded.chosen(l.add(more), of, now); len(news) > 0 && failed == nil {
			if failed = o.printMore(f.out, news, now); failed != nil {
				stop()
			}
		}
	}
	told := false
	for ctx.Err() == nil {
		began := f.clock.Now()
		err := f.log.Follow(ctx, report)
		if err == nil && f.clock.Now().Sub(began) > shownWithin {
			l.forget()
		}
		if errors.Is(err, store.ErrNotKept) || errors.Is(err, store.ErrNotAllowed) || apierrors.IsUnauthorized(err) {
			return err
		}
		if err != nil && ctx.Err() == nil && !told {
			fmt.Fprintf(f.errs, "nodeless: decisions: the watch failed and is tried again: %s\n", printable.Text(err.Error()))
		}
		told = err != nil
		_ = clock.Sleep(ctx, f.clock, watchPause) // the loop ends with ctx
	}
	return failed
}

// shownWithin is how long a watch may take to show all that the log holds. One that ended earlier may have shown less.
const shownWithin = time.Minute

// followedLog is the part of a log that is kept while it is followed.
type followedLog struct {
	known map[string]record.Record // by decision
	held  map[string]bool          // decisions that the current watch has shown
	told  map[string]int           // number of reported outcomes plus one, by decision
}

func newFollowedLog(known []record.Record) *followedLog {
	l := &followedLog{map[string]record.Record{}, map[string]bool{}, map[string]int{}}
	for _, r := range known {
		l.known[r.ID], l.told[r.ID] = r, len(r.Outcomes)+1
	}
	return l
}

// add adds entries, and returns the records that have changed. It joins only the decisions that the entries are about.
func (l *followedLog) add(more []record.Entry) (news []record.Record) {
	var before []record.Record
	asked := map[string]bool{}
	for _, e := range more {
		var id string
		switch {
		case e.Decision != nil:
			id = e.Decision.ID
			l.held[id] = true
		case e.Outcome != nil:
			id = e.Outcome.Of
		}
		if r, ok := l.known[id]; ok && !asked[id] {
			before = append(before, r)
		}
		asked[id] = true
	}
	for _, r := range record.Fold(append(record.Entries(before), more...)) {
		l.known[r.ID] = r
		if told := len(r.Outcomes) + 1; told > l.told[r.ID] {
			l.told[r.ID] = told
			news = append(news, r)
		}
	}
	return news
}

// forget forgets the decisions that the log has dropped: the watch that has ended showed all that the log holds.
func (l *followedLog) forget() {
	maps.DeleteFunc(l.known, func(id string, _ record.Record) bool { return !l.held[id] })
	clear(l.held)
}

// printMore prints what follows something printed before.
func (o *decisionsOptions) printMore(out io.Writer, records []record.Record, now time.Time) error {
	if o.output == "yaml" {
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
	}
	return o.print(out, records, now)
}

func (o *decisionsOptions) print(out io.Writer, records []record.Record, now time.Time) error {
	if output.IsData(o.output) {
		return output.Rows(out, o.output,
			record.List{
				APIVersion: "nodeless.sh/v1alpha1", Kind: "DecisionList",
				Items: append([]record.Record{}, records...),
			}, "items", !o.noHeaders)
	}
	if o.output == "name" {
		for i := range records {
			fmt.Fprintln(out, "decision/"+printable.Text(records[i].ID))
		}
		return nil
	}
	var rows [][]string
	wide := o.output == "wide"
	switch {
	case o.noHeaders:
	case wide:
		rows = append(rows, []string{"TIME", "ID", "DECISION", "REASON", "PODS", "SAVES", "SNAPSHOT", "WHAT"})
	default:
		rows = append(rows, []string{"AGE", "DECISION", "REASON", "WHAT"})
	}
	for i := range records {
		r := &records[i]
		by, saves := cmp.Or(r.Method, r.Rule, "-"), "-"
		if r.SavesPerHour != 0 {
			saves = reason.PerHour(r.SavesPerHour)
		}
		if wide {
			rows = append(rows, []string{
				r.Time.UTC().Format(time.RFC3339), r.ID, string(r.Kind), by, fmt.Sprint(podsOf(r)), saves,
				cmp.Or(r.Snapshot, "-"), r.Line(),
			})
			continue
		}
		rows = append(rows, []string{duration.HumanDuration(max(now.Sub(r.Time), 0)), string(r.Kind), by, r.Line()})
	}
	return output.Table(out, rows...)
}

// podsOf returns how many pods a decision is about.
func podsOf(r *record.Record) int {
	n := len(r.Pods) + r.PodsMore
	for _, m := range r.Removed {
		n += len(m.Pods) + m.PodsMore
	}
	return n
}
