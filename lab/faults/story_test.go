package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/region"
)

const namespace = "default"

// story is what happens to the cluster in a run, whatever fails meanwhile.
type story struct {
	c     *cluster
	in    *injector
	judge *judge
	calm  chan struct{} // closed when no more jobs will be created; nil if there are none
}

// patience is how much virtual time the cluster may take for a step of the story.
const patience = 45 * time.Minute

func (s *story) tell() error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"pods come", s.podsCome},
		{"more pods than the limit allows", s.tooMany},
		{"jobs begin to come and go", s.comeAndGo},
		{"a zone has nothing left", s.dry},
		{"pods go, machines are consolidated", s.shrink},
		{"the pool changes, machines drift", s.drift},
		{"a spot machine is interrupted", s.interrupt},
		{"a claim is deleted, an instance terminated by hand", s.byHand},
		{"nothing fails any more, all is quiet", s.quiet},
		{"all pods go, all machines go", s.end},
	} {
		s.in.note("== %s", step.name)
		if err := step.do(); err != nil {
			s.tellState()
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// until waits until ok returns nil.
func (s *story) until(ok func() error) error {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		if broken := s.judge.verdict(); len(broken) > 0 {
			return errors.New(broken[0])
		}
		if err = ok(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not within %s: %w", patience, err)
}

func (s *story) create(objects ...client.Object) error {
	for _, o := range objects {
		if err := s.c.client.Create(context.Background(), o); err != nil {
			return err
		}
	}
	return nil
}

// limits are what the story's objects specify.
var limits = promise{cpuLimit: 24, disrupting: 1, available: map[string]int{"web": 3, "db": 1}}

func (s *story) podsCome() error {
	err := s.create(
		class(), pool(), budget("web", limits.available["web"]), budget("db", limits.available["db"]),
		spread(app("web", 4, "1")), apart(app("db", 2, "1500m")),
	)
	if err != nil {
		return err
	}
	return s.until(s.allRun)
}

func (s *story) tooMany() error {
	if err := s.create(app("greedy", 5, "5")); err != nil {
		return err
	}
	time.Sleep(3 * time.Minute)
	if err := s.remove("greedy"); err != nil {
		return err
	}
	return s.until(s.allRun)
}

// comeAndGo creates jobs in half of all runs, from now until faults end.
func (s *story) comeAndGo() error {
	if s.in.chance("jobs")%2 == 0 {
		return nil
	}
	s.calm = make(chan struct{})
	s.c.wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-s.calm:
				return
			case <-s.c.ctx.Done():
				return
			case <-time.After(20 * time.Second):
			}
			if err := s.create(job(n)); err != nil {
				s.in.note("no job comes: %v", err)
			}
		}
	})
	return nil
}

// remove deletes an app with its pods: there is no garbage collector here.
func (s *story) remove(name string) error {
	ctx := context.Background()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := s.c.client.Delete(ctx, set); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return s.removePods(name)
}

func (s *story) removePods(app string) error {
	ctx := context.Background()
	var pods corev1.PodList
	if err := s.c.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": app}); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := client.IgnoreNotFound(s.c.client.Delete(ctx, &pods.Items[i])); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) scale(name string, replicas int32) error {
	ctx := context.Background()
	set := &appsv1.ReplicaSet{}
	if err := s.c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
		return err
	}
	patch := client.MergeFrom(set.DeepCopy())
	set.Spec.Replicas = &replicas
	return s.c.client.Patch(ctx, set, patch)
}

// dry scales up while one zone has no spot capacity and the other hardly any.
func (s *story) dry() error {
	dry := func(_ string, zone int) int { return zone }
	plenty := func(string, int) int { return 100 }
	return errors.Join(s.sell(dry), s.scale("web", 8), s.until(s.allRun), s.sell(plenty))
}

// sell sets the spot capacity of each type and zone.
func (s *story) sell(count func(instanceType string, zone int) int) error {
	for _, t := range machines.Types {
		for i, zone := range machines.Zones {
			if err := s.c.region.SetCapacity(region.Pool{Type: t.Name, Zone: zone, CapacityType: region.Spot},
				count(t.Name, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *story) shrink() error {
	if err := s.scale("web", 4); err != nil {
		return err
	}
	time.Sleep(10 * time.Minute)
	return s.until(s.allRun)
}

// drift changes the pool's template, so that each node is replaced.
func (s *story) drift() error {
	ctx := context.Background()
	p := &karpv1.NodePool{}
	if err := s.c.client.Get(ctx, client.ObjectKey{Name: "pool"}, p); err != nil {
		return err
	}
	patch := client.MergeFrom(p.DeepCopy())
	p.Spec.Template.Labels = map[string]string{"team": "b"}
	if err := s.c.client.Patch(ctx, p, patch); err != nil {
		return err
	}
	return s.until(func() error {
		for _, claim := range s.c.api.Objects(claimsGVR) {
			if claim.GetLabels()["team"] != "b" {
				return fmt.Errorf("claim %s is of the pool as it was", claim.GetName())
			}
		}
		return s.allRun()
	})
}

func (s *story) instances() []region.Instance {
	var out []region.Instance
	for _, i := range s.c.region.Instances() {
		if i.State == region.Pending || i.State == region.Running {
			out = append(out, i)
		}
	}
	return out
}

func (s *story) interrupt() error {
	for _, i := range s.instances() {
		if i.CapacityType == region.Spot {
			s.judge.excuse(i.ID)
			if err := s.c.region.Interrupt(i.ID); err != nil {
				return err
			}
			break
		}
	}
	time.Sleep(4 * time.Minute)
	return s.until(s.allRun)
}

func (s *story) byHand() error {
	all := s.instances()
	if len(all) == 0 {
		return errors.New("nothing runs")
	}
	s.judge.excuse(all[0].ID)
	if _, err := s.c.region.TerminateInstances([]string{all[0].ID}); err != nil {
		return err
	}
	claims := s.c.api.Objects(claimsGVR)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claims[len(claims)-1].GetName()}}
	if err := client.IgnoreNotFound(s.c.client.Delete(context.Background(), claim)); err != nil {
		return err
	}
	time.Sleep(2 * time.Minute)
	return s.until(s.allRun)
}

// quiet ends the faults: everything must become consistent, and then stay as it is.
func (s *story) quiet() error {
	s.in.stop()
	if s.calm != nil {
		close(s.calm)
	}
	if err := s.until(func() error { return errors.Join(s.allRun(), s.matched()) }); err != nil {
		return err
	}
	time.Sleep(15 * time.Minute) // consolidation and interrupted commands are finished by then
	if err := s.until(func() error { return errors.Join(s.allRun(), s.matched(), s.unmarked()) }); err != nil {
		return err
	}
	before := s.judge.count("claims")
	time.Sleep(10 * time.Minute)
	if after := s.judge.count("claims"); after != before {
		return fmt.Errorf("%d claims were made in ten minutes in which nothing happened", after-before)
	}
	return errors.Join(s.allRun(), s.matched(), s.unmarked())
}

func (s *story) end() error {
	for _, name := range []string{"web", "db"} {
		if err := s.remove(name); err != nil {
			return err
		}
	}
	if err := s.removePods("jobs"); err != nil {
		return err
	}
	return s.until(func() error {
		if n := len(s.instances()) + len(s.c.api.Objects(claimsGVR)) + len(s.c.api.Objects(nodesGVR)); n > 0 {
			return fmt.Errorf("%d instances, claims and nodes are left", n)
		}
		return nil
	})
}
