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

// settled waits until every pod is bound, and returns an error if that takes too long.
func (s *scale) settled() error {
	waiting, missing := 0, 0
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		s.crowd.do(func() {
			waiting, missing = len(s.crowd.waiting), 0
			for _, set := range s.crowd.sets {
				missing += set.wanted - set.have
			}
		})
		if waiting == 0 && missing == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d pods wait after %s, and %d are missing", waiting, patience, missing)
}

// grown adds a ReplicaSet of an app and waits until all its pods run.
func (s *scale) grown(app string, pods int) error {
	if err := s.add(app, pods); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return s.settled()
}

func (s *scale) add(app string, pods int) error {
	var set *replicas
	s.crowd.do(func() { set = s.crowd.newSet(app, pods) })
	err := s.saveSet(set)
	if err == nil {
		s.crowd.do(func() { err = s.crowd.fill(context.Background(), set) })
	}
	return err
}

// grow adds the given number of pods at once, a hundred per ReplicaSet, and waits until they run.
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

// churn deletes the given number of pods, 20 a second, which their ReplicaSets replace.
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

// shrink deletes a tenth of the ReplicaSets' pods, two on each affected node, and waits until no more nodes are
// removed.
func (s *scale) shrink() error {
	ended := map[string]*replicas{}
	s.crowd.do(func() {
		for i, name := range slices.Sorted(maps.Keys(s.crowd.sets)) {
			if i%10 == 0 {
				ended[name] = s.crowd.sets[name]
				ended[name].wanted = 0
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(ended)) {
		if err := s.saveSet(ended[name]); err != nil {
			return err
		}
	}
	for _, p := range s.c.api.Objects(podsGVR) {
		if ended[p.GetOwnerReferences()[0].Name] != nil {
			if err := s.deletePod(p); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	const quiet, longest = 3 * time.Minute, 15 * time.Minute
	nodes, since := 0, time.Now()
	for end := time.Now().Add(longest); time.Now().Before(end) && time.Since(since) < quiet; time.Sleep(time.Second) {
		if n := s.crowd.nodes(); n != nodes {
			nodes, since = n, time.Now()
		}
	}
	return nil
}
