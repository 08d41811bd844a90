package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/trace"
)

// kindOfPod is a share of the pods running at a time, and how long they live: a log-normally distributed time.
type kindOfPod struct {
	share  float64
	median time.Duration
	sigma  float64
}

// dayOfChurn returns a trace in which the given number of pods run at a time after a ramp of one hour. Four in five
// are services that are rolled out every two days or so; the others run for hours, or as jobs for minutes. They
// request 980m and 3.7 GiB on average, so that some thirty share a node.
func dayOfChurn(pods int, length time.Duration) *trace.Trace {
	const ramp = time.Hour
	random := rand.New(rand.NewPCG(1, 300_000))
	t := &trace.Trace{Name: fmt.Sprintf("%d pods at a time", pods)}
	for _, k := range []kindOfPod{{0.80, 36 * time.Hour, 0.8}, {0.17, 3 * time.Hour, 0.8}, {0.03, 10 * time.Minute, 1}} {
		life := func() time.Duration { return time.Duration(float64(k.median) * math.Exp(k.sigma*random.NormFloat64())) }
		add := func(start, life time.Duration) {
			cpu := []int64{90, 210, 420, 420, 840, 840, 1680, 3360}[random.IntN(8)]
			memory := cpu * []int64{1, 2, 4, 4, 8}[random.IntN(5)] << 30 / 1000
			life = max(min(life, length-start), time.Second).Truncate(time.Second)
			t.Pods = append(t.Pods, trace.Pod{CPU: cpu, Memory: memory, Start: start.Truncate(time.Second), Life: life})
		}
		mean := float64(k.median) * math.Exp(k.sigma*k.sigma/2)
		alive := float64(pods) * k.share
		for range int(alive) {
			add(time.Duration(random.Float64()*float64(ramp)), life())
		}
		for at := float64(0); ; {
			at += random.ExpFloat64() * mean / alive
			start := time.Duration(at)
			if start >= length {
				break
			}
			if random.Float64() < at/float64(ramp) { // during the ramp, only as many are replaced as have arrived
				add(start, life())
			}
		}
	}
	slices.SortStableFunc(t.Pods, func(a, b trace.Pod) int { return int(a.Start - b.Start) })
	return t
}

// pieces is how much of a search the controller of a large cluster makes in 30 s here, about a tenth of what it has
// time for: 1,000 steps, enough for 200 plans that may launch nodes, or 1,000 that may not. The next interval
// continues where one stops.
const pieces = 10

// piecesAsked returns $PIECES, or pieces.
func piecesAsked(b *testing.B) int {
	text := os.Getenv("PIECES")
	if text == "" {
		return pieces
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("PIECES=%s: how many pieces of a search fall into 30 s is a number from 1 on", text)
	}
	return n
}

// BenchmarkADay runs a day of churn on a large cluster, or two hours of it, with make bench-scale. The results are in
// docs/does-it-save-over-time.md.
func BenchmarkADay(b *testing.B) {
	for _, pods := range []int{3_000, 30_000, 300_000} {
		for _, length := range []time.Duration{2 * time.Hour, 24 * time.Hour} {
			b.Run(fmt.Sprintf("%d_pods_%.0fh", pods, length.Hours()), func(b *testing.B) {
				d := Nodeless(model.Policy{})
				d.Promise = true
				c := Config{
					Trace: dayOfChurn(pods, length), Types: Catalogue{MaxVCPU: 32}.Types(), Decider: d,
					Pieces: piecesAsked(b), Seed: 1,
				}
				var r Result
				var err error
				before := usage()
				c.Progress = func(at, end time.Duration) {
					u := usage()
					fmt.Fprintf(os.Stderr, "%s of %s: %.0f s of processor time, at most %d MiB\n",
						at.Truncate(time.Minute), end.Round(time.Minute), seconds(u)-seconds(before), u.Maxrss/1024)
				}
				for b.Loop() {
					if r, err = Run(context.Background(), c); err != nil {
						b.Fatal(err)
					}
				}
				after := usage()
				b.ReportMetric(seconds(after)-seconds(before), "cpu-s")
				b.ReportMetric(float64(after.Maxrss)/1024, "MiB-peak")
				b.Logf("%d pods came, %.0f machines on average, %d at most; $%.0f, %d pods moved by %d commands, %d machines launched, %d plans, %d passes",
					r.Pods, r.MeanNodes, r.PeakNodes, r.Cost, r.Moves, r.Commands, r.Launched, r.Plans, r.Passes)
			})
		}
	}
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u
}

func seconds(u syscall.Rusage) float64 {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
