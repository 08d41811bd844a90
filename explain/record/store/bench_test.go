package store

import (
	"context"
	"testing"
	"time"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/explain/record"
)

// A thousand decisions a minute for ten minutes, written every two seconds: a launch for ten pods, ready 40 s later,
// gone after a minute. go test ./explain/record/store -run XXX -bench Thousand -benchtime 1x
func BenchmarkAThousandDecisionsAMinute(b *testing.B) {
	const minutes, aMinute = 10, 1000
	c := server(b)
	begin, ctx := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), context.Background()
	for b.Loop() {
		if err := c.DeleteAllOf(ctx, &v1alpha1.DecisionLog{}); err != nil {
			b.Fatal(err)
		}
		ring := &store{client: c, pieces: ringPieces, bytes: pieceBytes}
		if err := ring.load(ctx, func([]record.Entry) {}, func(err error) { b.Error(err) }); err != nil {
			b.Fatal(err)
		}
		writes, entries, id := 0, 0, 0
		for turn := range minutes * 30 {
			now := begin.Add(time.Duration(turn) * gatherTime)
			var batch []record.Entry
			for range aMinute / 30 {
				batch = append(batch, life(id, now)...)
				id++
			}
			entries += len(batch)
			for len(batch) > 0 {
				n, err := ring.append(ctx, batch)
				if err != nil {
					b.Fatal(err)
				}
				batch, writes = batch[n:], writes+1
			}
		}
		var logs v1alpha1.DecisionLogList
		if err := c.List(ctx, &logs); err != nil {
			b.Fatal(err)
		}
		size := 0
		for i := range logs.Items {
			size += len(logs.Items[i].Data)
		}
		if len(logs.Items) > ringPieces || size > ringPieces*pieceBytes {
			b.Errorf("%d pieces of %d bytes: the ring is not bounded", len(logs.Items), size)
		}
		b.ReportMetric(float64(writes)/minutes, "writes/min")
		b.ReportMetric(float64(size)/float64(entries), "B/entry")
		b.ReportMetric(float64(size)/1024, "KiB-kept")
		b.ReportMetric(float64(len(logs.Items)), "pieces")
	}
}
