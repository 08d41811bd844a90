package faults

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/region"
)

var (
	nodesFlag    = flag.String("nodes", "25", "sizes of the clusters of which a controller's needs are measured")
	profilesFlag = flag.String("profiles", "",
		"a folder for a profile of each phase of the last cluster, and the controller's log")
)

const crowdAgent, heartbeatAgent = "crowd", "kubelet"

// scale is a large cluster, its controller, and the measurements.
type scale struct {
	c      *cluster
	crowd  *crowd
	gauge  *gauge
	uids   int
	log    safeBuffer
	stop   func() error // stops the controller
	first  chan struct{}
	blank  uint64 // live heap in bytes without the controller
	phases []figures
}

// Measures what a controller uses at the given number of nodes with 20 pods each; `make bench-controller` does so at
// 1,000 and more. This run checks that the measurement works, by counts that do not depend on the machine.
func TestItTakesLittleOfALargeCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // as the program sets it
	var all []*scale
	for _, text := range strings.Split(*nodesFlag, ",") {
		nodes, err := strconv.Atoi(text)
		if err != nil || nodes < len(apps) || nodes%len(apps) > 0 {
			t.Fatalf("-nodes %s: give multiples of %d", text, len(apps))
		}
		s := measured(t, nodes)
		if t.Failed() {
			return
		}
		s.judge(t, nodes)
		all = append(all, s)
	}
	fmt.Print(table(t, all))
}

// measured runs the story of a cluster of the given size.
func measured(t *testing.T, nodes int) *scale {
	s, dir, outside := &scale{}, cmp.Or(*profilesFlag, t.TempDir()), newOutside()
	synctest.Test(t, func(t *testing.T) {
		pprof.SetGoroutineLabels(theRest)
		s.c = open(t, region.Config{Seed: 1})
		s.c.api.Keep(10_000)
		s.c.api.Protobuf()
		s.gauge = newGauge(s.c, dir, outside)
		s.crowd = newCrowd(s.c, s.c.kube(t, crowdAgent))
		s.c.run(t, "crowd", s.crowd.work)
		if err := s.tell(t, nodes); err != nil {
			t.Error(err)
		}
		s.c.stop()
		if *profilesFlag != "" {
			if err := os.WriteFile(filepath.Join(dir, "controller.log"), []byte(s.log.String()), 0o600); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			text := s.log.String()
			t.Log(text[max(0, len(text)-20_000):])
		}
	})
	return s
}

func (s *scale) tell(t *testing.T, nodes int) error {
	if err := s.found(t, nodes); err != nil {
		return err
	}
	pods := nodes * podsPerNode
	for _, phase := range []struct {
		name string
		do   func() error
	}{
		{"start", func() error { s.start(t); <-s.first; return nil }},
		{"settle", func() error { time.Sleep(5 * time.Minute); return nil }},
		{"idle", func() error { return s.idle(15 * time.Minute) }},
		{"churn", func() error { return s.churn(min(1000, pods/10)) }},
		{"scale-out", func() error { return s.grow(min(5000, pods/2)) }},
		{"consolidation", s.shrink},
	} {
		f, err := s.gauge.measure(phase.name, phase.do)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", phase.name, err), s.stop())
		}
		f.nodes = s.crowd.nodes()
		s.phases = append(s.phases, f)
		t.Logf("%d nodes, %s: %d nodes after %s; %s; %s; calls:\n%s\n%s", nodes, phase.name, f.nodes, f.took,
			seconds(f.decided), alive(s, &f), listed(f.api), listed(f.aws))
	}
	return s.stop()
}

// judge reports what is wrong with the counts of the phases.
func (s *scale) judge(t *testing.T, nodes int) {
	idle, out, in := &s.phases[idling], &s.phases[growing], &s.phases[shrinking]
	if n := idle.launched + idle.ended + idle.writes(); n > 0 {
		t.Errorf("%d launches, removals and writes while nothing happens:\n%s", n, listed(idle.api))
	}
	if idle.events != 3*nodes {
		t.Errorf("%d watch events of %d nodes that report three times", idle.events, nodes)
	}
	if n := calls(out.aws, "CreateFleet"); n == 0 || n > out.launched || out.nodes <= nodes {
		t.Errorf("%d nodes of %d after %d launches by %d calls", out.nodes, nodes, out.launched, n)
	}
	if in.ended == 0 || in.nodes >= out.nodes {
		t.Errorf("%d nodes of %d are left after %d removals", in.nodes, out.nodes, in.ended)
	}
}

// start starts the controller, as in production.
func (s *scale) start(t *testing.T) {
	s.first = make(chan struct{})
	o := through(t, s.c, s.gauge.kube, &elsewhere{next: s.gauge.amazon}, &s.log)
	o.Unobserved, o.Clock, o.Policy = false, &s.gauge.clock, model.Defaults()
	o.REST.QPS = 0 // the controller's own limit
	told, check := false, o.OnDecision
	o.OnDecision = func(d cycle.Decision) {
		check(d)
		if !told {
			told = true
			close(s.first)
		}
		s.gauge.decided(d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		pprof.SetGoroutineLabels(theController)
		ended <- controller.Run(ctx, o)
	}()
	s.stop = func() error { cancel(); return <-ended }
}

// found lets the controller launch a node for each app, and clones these nodes.
func (s *scale) found(t *testing.T, nodes int) error {
	if err := s.launchOriginals(t); err != nil {
		return err
	}
	all := s.originals()
	if len(all) != len(apps) {
		return fmt.Errorf("%d nodes for %d apps", len(all), len(apps))
	}
	var err error
	sets := map[string]*replicas{}
	for k := 1; k < nodes/len(all); k++ {
		for _, x := range all {
			err = errors.Join(err, s.clone(x, func(app string, pair int) *replicas {
				at := fmt.Sprintln(app, pair, k/50)
				if sets[at] == nil {
					sets[at] = s.crowd.newSet(app, 0)
				}
				return sets[at]
			}))
		}
		time.Sleep(time.Millisecond)
	}
	for _, set := range sets {
		err = errors.Join(err, s.saveSet(set))
	}
	time.Sleep(2 * time.Minute) // the time in which they boot
	known := map[string]bool{}
	for _, i := range s.c.region.Instances() {
		known[i.ID] = true
	}
	s.boot(t, s.c.ctx, known)
	time.Sleep(time.Minute)
	s.blank = heap()
	return err
}

// launchOriginals lets a controller launch a node for each app, and waits until everything has settled.
func (s *scale) launchOriginals(t *testing.T) error {
	s.start(t)
	kubelets, end := context.WithCancel(s.c.ctx)
	s.boot(t, kubelets, nil)
	err := s.c.client.Create(s.c.ctx, class())
	err = errors.Join(err, s.c.client.Create(s.c.ctx, generalPurpose()))
	time.Sleep(time.Minute)
	for app := range apps {
		err = errors.Join(err, s.grown(app, podsPerNode))
	}
	time.Sleep(15 * time.Minute)
	err = errors.Join(err, s.stop())
	end()
	return err
}
