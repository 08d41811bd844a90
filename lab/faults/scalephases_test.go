package faults

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// settled waits until every pod has its place, and returns an error if that takes too long.
func (s *scale) settled() error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		missing := 0
		for _, set := range s.crowd.sets {
			missing += set.wanted - set.have
		}
		if len(s.crowd.waiting) == 0 && missing == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d pods wait after %s", len(s.crowd.waiting), patience)
}

// grown has a new ReplicaSet of an app, and all its pods run.
func (s *scale) grown(app string, pods int) error {
	if err := s.add(app, pods); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return s.settled()
}

func (s *scale) add(app string, pods int) error {
	set := s.crowd.newSet(app, pods)
	if err := s.saveSet(set); err != nil {
		return err
	}
	return s.crowd.fill(context.Background(), set)
}

// grow has so many more pods come at once, a hundred of each ReplicaSet, until they run.
func (s *scale) grow(pods int) error {
	names := slices.Sorted(maps.Keys(apps))
	for n := 0; pods > 0; n++ {
		if err := s.add(names[n%len(names)], min(pods, 100)); err != nil {
			return err
		}
		pods -= 100
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Second)
	err := s.settled()
	time.Sleep(time.Minute)
	return err
}

// churn deletes so many pods, 20 a second: their ReplicaSets create others.
func (s *scale) churn(pods int) error {
	gone := 0
	for _, p := range s.c.api.Objects(podsGVR) {
		if gone == pods {
			break
		}
		if err := s.deletePod(p); err != nil {
			return err
		}
		gone++
		time.Sleep(50 * time.Millisecond)
	}
	err := s.settled()
	time.Sleep(time.Minute)
	return err
}

func (s *scale) deletePod(p *unstructured.Unstructured) error {
	return s.call(http.MethodDelete, "/api/v1/namespaces/"+namespace+"/pods/"+p.GetName(), "somebody", nil)
}

// shrink has a tenth of the ReplicaSets end, with two pods on each node, and waits until no node goes any more.
func (s *scale) shrink() error {
	ended := map[string]bool{}
	for i, name := range slices.Sorted(maps.Keys(s.crowd.sets)) {
		if set := s.crowd.sets[name]; i%10 == 0 {
			ended[name], set.wanted = true, 0
			if err := s.saveSet(set); err != nil {
				return err
			}
		}
	}
	for _, p := range s.c.api.Objects(podsGVR) {
		if ended[p.GetOwnerReferences()[0].Name] {
			if err := s.deletePod(p); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	const quiet, longest = 3 * time.Minute, 15 * time.Minute
	nodes, since := 0, time.Now()
	for end := time.Now().Add(longest); time.Now().Before(end) && time.Since(since) < quiet; time.Sleep(time.Second) {
		if n := len(s.crowd.hosts); n != nodes {
			nodes, since = n, time.Now()
		}
	}
	return nil
}
