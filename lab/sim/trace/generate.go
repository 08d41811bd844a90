package trace

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// generators are the workloads that Generate knows. They have nothing in common with the public traces except the
// kinds of workload.
var generators = map[string]func(*generator){
	"services": func(g *generator) { g.services(24) },
	"batch":    func(g *generator) { g.batch(150, 3*time.Minute, 0, g.length) },
	"vms":      func(g *generator) { g.vms(240) },
	"nightly": func(g *generator) {
		g.services(10)
		g.batch(300, 12*time.Minute, g.length/4, g.length/2)
	},
	"mixture": func(g *generator) {
		g.services(8)
		g.batch(50, 3*time.Minute, 0, g.length)
		g.vms(80)
	},
}

// Generated returns the sorted names of the workloads that Generate makes.
func Generated() []string { return slices.Sorted(maps.Keys(generators)) }

// Generate makes a workload that is already running when it begins and ends after length: services with rollouts that
// grow and shrink, batch jobs of minutes, VMs of minutes to a day, nightly peaks of jobs beside services, or a
// mixture. Equal arguments give equal traces.
func Generate(name string, seed uint64, length time.Duration) (*Trace, error) {
	generate, ok := generators[name]
	if !ok {
		return nil, fmt.Errorf("generate %s: want one of %s", name, strings.Join(Generated(), ", "))
	}
	g := &generator{random: rand.New(rand.NewPCG(seed, 2)), length: length}
	generate(g)
	if len(g.pods) == 0 {
		return nil, fmt.Errorf("generate %s of %s: it has no pods; give a longer time", name, length)
	}
	return (&Trace{Name: name, Pods: g.pods}).sorted(), nil
}

type generator struct {
	random *rand.Rand
	length time.Duration
	pods   []Pod
	owners int32
}

// add adds a pod that runs from begin to end, cut to the window.
func (g *generator) add(p Pod, begin, end time.Duration) {
	p.Start = max(begin, 0)
	if p.Life = min(end, g.length) - p.Start; p.Life >= time.Second {
		g.pods = append(g.pods, p)
	}
}

// exponential returns an exponentially distributed time with this mean.
func (g *generator) exponential(mean time.Duration) time.Duration {
	return time.Duration(g.random.ExpFloat64() * float64(mean))
}

// logNormal returns a log-normally distributed number with this median and this standard deviation of the logarithm.
func (g *generator) logNormal(median, spread float64) float64 {
	return median * math.Exp(spread*g.random.NormFloat64())
}

// among returns one of the values; each is less likely than the one before by the factor.
func among[T any](g *generator, factor float64, values ...T) T {
	for _, v := range values {
		if g.random.Float64() >= factor {
			return v
		}
	}
	return values[0]
}

// ask returns the requests of a container: some CPU, and 1 to 8 GiB of memory per core.
func (g *generator) ask() Pod {
	cpu := among(g, 0.7, int64(250), 100, 500, 1000, 2000, 4000)
	return Pod{CPU: cpu, Memory: cpu * among(g, 0.6, int64(2), 4, 1, 8) << 30 / 1000}
}

// services adds count Deployments. Each follows a daily wave and a random walk, and is rolled out every few hours, a
// quarter at a time; a pod ends half a minute after its successor is created.
func (g *generator) services(count int) {
	const step = 30 * time.Second
	for range count {
		g.owners++
		ask := g.ask()
		ask.Owner = g.owners
		size, phase, wave := min(g.logNormal(6, 0.8), 40), g.random.Float64(), 0.5*g.random.Float64()
		next := g.exponential(5 * time.Hour)
		var live []time.Duration // when each began, oldest first
		var toRoll int
		for now := time.Duration(0); now < g.length; now += step {
			size = min(max(size*math.Exp(0.01*g.random.NormFloat64()), 1), 60)
			day := math.Sin(2 * math.Pi * (phase + now.Hours()/24))
			target := max(int(size*(1+wave*day)), 1)
			begun := now
			if now > 0 { // the initial pods start together, as in a window of a trace
				begun += time.Duration(g.random.Int64N(int64(2 * time.Second)))
			}
			for len(live) < target {
				live = append(live, begun)
			}
			for len(live) > target { // the youngest first, as a ReplicaSet does
				g.add(ask, live[len(live)-1], begun)
				live = live[:len(live)-1]
				toRoll = min(toRoll, len(live))
			}
			if now >= next {
				next, toRoll = now+g.exponential(5*time.Hour), len(live)
			}
			for range min((len(live)+3)/4, toRoll) {
				g.add(ask, live[0], begun+step)
				live, toRoll = append(live[1:], begun), toRoll-1
			}
		}
		for _, begun := range live {
			g.add(ask, begun, g.length)
		}
	}
}

// batch adds jobs between two times, with live pods running on average. A job's pods are equal except for their
// lifetimes.
func (g *generator) batch(live float64, median, from, to time.Duration) {
	const spread, mean = 1.0, 8.0
	life := median.Seconds() * math.Exp(spread*spread/2)
	between := time.Duration(life / live * mean * float64(time.Second))
	for at := from + g.exponential(between); at < to; at += g.exponential(between) {
		ask, typical := g.ask(), g.logNormal(median.Seconds(), 0.7*spread)
		for range int(math.Ceil(g.random.ExpFloat64() * mean)) {
			life := g.logNormal(typical, 0.7*spread)
			g.add(ask, at, at+time.Duration(life*float64(time.Second)))
		}
	}
}

// vms adds virtual machines, live of them running on average. The logarithm of their lifetimes is uniform between
// five minutes and a day: most are short, and most of those that run at a given moment are old.
func (g *generator) vms(live float64) {
	const shortest, longest = 300.0, 86400.0
	life := func() float64 { return shortest * math.Pow(longest/shortest, g.random.Float64()) }
	mean := (longest - shortest) / math.Log(longest/shortest)
	ask := func() Pod {
		cpu := among(g, 0.6, int64(2000), 1000, 4000, 8000, 16000)
		return Pod{CPU: cpu, Memory: cpu * among(g, 0.55, int64(4), 2, 8) << 30 / 1000}
	}
	for range int(live) { // the initial ones: their remaining lifetimes are uniform
		whole := shortest + (longest-shortest)*g.random.Float64() // lifetimes met at a moment: not log-uniform
		g.add(ask(), 0, time.Duration(whole*g.random.Float64()*float64(time.Second)))
	}
	between := time.Duration(mean / live * float64(time.Second))
	for at := g.exponential(between); at < g.length; at += g.exponential(between) {
		x := ask()
		for range among(g, 0.2, 1, 2, 5, 10) {
			g.add(x, at, at+time.Duration(life()*float64(time.Second)))
		}
	}
}
