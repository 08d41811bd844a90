package ahead

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// booted returns the nth NodeClaim of a pool, whose node took the given number of seconds to boot.
func booted(pool string, n, took int) []*karpv1.NodeClaim {
	created := at("2026-06-03T10:00:00Z").Add(time.Duration(n) * time.Minute)
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint(pool, n), UID: types.UID(fmt.Sprint(pool, n)), CreationTimestamp: metav1.NewTime(created),
		Labels: map[string]string{karpv1.NodePoolLabelKey: pool},
	}}
	c.Status.Conditions = []status.Condition{{
		Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(created.Add(time.Duration(took) * time.Second)),
	}}
	return []*karpv1.NodeClaim{c}
}

// day is a cluster with one pool whose nodes take 40 s to boot, and a CronJob of five pods every five minutes.
type day struct {
	*testing.T
	clock *clock.Virtual
	c     *Controller
	cj    *batchv1.CronJob
	pods  int
}

func newDay(t *testing.T, change func(*karpv1.NodePool, *batchv1.CronJob)) *day {
	d := &day{T: t, clock: clock.NewVirtual(at("2026-06-03T12:00:00Z"))}
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "p", ResourceVersion: "1", Annotations: map[string]string{},
	}}
	np.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "g", Kind: "K", Name: "c"}
	np.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	d.cj = &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "report", UID: "u", Generation: 1},
		Spec: batchv1.CronJobSpec{Schedule: "*/5 * * * *", TimeZone: ptr.To("Etc/UTC"), JobTemplate: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](5), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")},
				}}},
			}}},
		}},
	}
	if change != nil {
		change(np, d.cj)
	}
	s := cluster.New(cluster.Options{Clock: d.clock})
	s.Update(np)
	capacity := model.Resources{model.CPU: 4000, model.Memory: 8 << 30, model.Pods: 58}
	s.SetCatalog(cloud.ClassRef{Group: "g", Kind: "K", Name: "c"}, []model.InstanceType{{
		Name: "m.large", Capacity: capacity, Allocatable: capacity,
		Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, "m.large"),
			model.OneOf(model.LabelOS, "linux"), model.OneOf(model.LabelArch, "amd64")),
		Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, Price: 200_000, Available: true}},
	}}, "")
	boots := &Boots{}
	for i := range maxBoots {
		boots.Observe(booted("p", i, 40))
	}
	d.c = newController(Options{
		Planner: Planner{State: s, Provision: engine.Provision, Policy: model.Defaults(), Boots: boots},
		Clock:   d.clock, Recorder: record.NewFakeRecorder(100), Log: slog.New(slog.DiscardHandler),
	})
	return d
}

// until runs the controller until the given time and returns the number of placeholders at that time.
func (d *day) until(text string) int {
	d.Helper()
	end := at("2026-06-03T" + text + "Z")
	for steps := 0; ; steps++ {
		again, err := d.c.step(types.NamespacedName{Namespace: "default", Name: "report"}, d.cj, d.clock.Now())
		switch {
		case err != nil || steps > 1000:
			d.Fatalf("at %s, after %d steps: %v", d.clock.Now(), steps, err)
		case again.IsZero() || again.After(end):
			d.clock.Advance(end.Sub(d.clock.Now()))
			return len(d.c.o.Planner.State.Snapshot().Placeholders())
		}
		d.clock.Advance(max(again.Sub(d.clock.Now()), time.Millisecond))
	}
}

// come creates n pods of a run.
func (d *day) come(n int, run string) {
	job := jobOf(d.cj, at("2026-06-03T"+run+"Z"))
	for range n {
		d.pods++
		name := fmt.Sprint("pod", d.pods)
		d.c.o.Planner.State.Update(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(d.pods),
			CreationTimestamp: metav1.NewTime(d.clock.Now()),
			OwnerReferences:   []metav1.OwnerReference{{Kind: "Job", Name: job.Name, Controller: ptr.To(true)}},
		}})
	}
}

// create is the CronJob controller at work: it creates the Job of a run.
func (d *day) create(run string) {
	d.cj = d.cj.DeepCopy()
	d.cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(at("2026-06-03T" + run + "Z")))
}

func (d *day) want(when string, room int) {
	d.Helper()
	if got := d.until(when); got != room {
		d.Errorf("at %s there is room for %d pods, want %d", when, got, room)
	}
}

func TestRoomIsThereABootTimeAheadOfEachRun(t *testing.T) {
	d := newDay(t, nil)
	d.want("12:04:18", 0)
	d.want("12:04:20", 5)
	d.want("12:05:00", 5)
	d.come(3, "12:05:00")
	d.want("12:05:01", 2)
	d.come(2, "12:05:00")
	d.want("12:05:02", 0)
	d.want("12:09:18", 0)
	d.want("12:09:20", 5)
}

func TestRoomIsGivenBackIfPodsDoNotCome(t *testing.T) {
	d := newDay(t, nil)
	d.want("12:05:05", 5)
	d.come(1, "12:05:00")
	d.want("12:05:14", 4)
	d.want("12:05:16", 0) // 10 s after the last pod came
	d.want("12:09:30", 1) // as many as in the last run
	d.want("12:10:00", 1)
	d.come(5, "12:10:00")
	d.want("12:14:30", 5)
	d.want("12:15:00", 5)
	d.create("12:15:00")
	d.want("12:15:11", 0)
	d.want("12:19:30", 0) // no pod came
	d.want("12:20:00", 0)
	d.come(5, "12:20:00")
	d.want("12:24:30", 5)
}

// A CronJob controller that is late is no reason to give up the room for its pods, unless it is very late.
func TestRoomIsKeptUntilTheRunsJobIsCreated(t *testing.T) {
	d := newDay(t, nil)
	d.want("12:05:30", 5)
	d.create("12:05:00")
	d.want("12:05:35", 5)
	d.come(5, "12:05:00")
	d.want("12:05:36", 0)
	d.want("12:09:30", 5)

	d.want("12:10:30", 5)
	d.create("12:10:00")
	d.want("12:10:39", 5)
	d.want("12:10:41", 0) // a Job was created, and no pod

	d.want("12:15:00", 0)
	d.come(5, "12:15:00")
	d.want("12:19:30", 5)
	d.want("12:20:59", 5)
	d.want("12:21:01", 0) // no Job was created
}

func TestRoomThatIsNotPrepared(t *testing.T) {
	for name, c := range map[string]struct {
		change func(np *karpv1.NodePool, cj *batchv1.CronJob)
		why    string
	}{
		"the pool is off": {func(np *karpv1.NodePool, _ *batchv1.CronJob) {
			np.Annotations[translate.AnnotationAhead] = "false"
		}, `NodePool p has annotation nodeless.sh/ahead, which is not "true"`},
		"the last run goes on": {func(_ *karpv1.NodePool, cj *batchv1.CronJob) {
			cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
			cj.Status.Active = []corev1.ObjectReference{{Name: "report-1"}}
		}, "its last run has not ended"},
		"another scheduler": {func(_ *karpv1.NodePool, cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Spec.Template.Spec.SchedulerName = "mine"
		}, "scheduled by mine"},
		"too large a pod": {func(_ *karpv1.NodePool, cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("99")
		}, "no node can take its pods: "},
		"gates": {func(_ *karpv1.NodePool, cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "mine"}}
		}, "scheduling gates"},
		"another Job controller": {func(_ *karpv1.NodePool, cj *batchv1.CronJob) {
			cj.Spec.JobTemplate.Spec.ManagedBy = ptr.To("kueue.x-k8s.io/multikueue")
		}, "create no pods by themselves"},
		"a pool that says something else": {func(np *karpv1.NodePool, _ *batchv1.CronJob) {
			np.Annotations[translate.AnnotationAhead] = "no"
		}, "nodeless.sh/ahead"},
	} {
		d := newDay(t, c.change)
		if got := d.until("12:05:00"); got != 0 {
			t.Errorf("%s: room for %d pods", name, got)
		}
		if p := d.c.o.Planner.Plan(d.cj, at("2026-06-03T12:10:00Z"), 5); !strings.Contains(p.Why, c.why) {
			t.Errorf("%s: %q, want %q", name, p.Why, c.why)
		}
	}
}

func TestASuspendedOrDeletedCronJobKeepsNoRoom(t *testing.T) {
	d := newDay(t, nil)
	d.want("12:04:30", 5)
	d.cj.Spec.Suspend, d.cj.Generation = ptr.To(true), 2
	d.want("12:04:31", 0)
	d.cj.Spec.Suspend, d.cj.Generation = nil, 3
	d.want("12:04:32", 5)
	d.cj = nil
	d.want("12:04:33", 0)
}

// A CronJob that replaces one of its name has the same generation.
func TestACronJobThatReplacesAnotherGetsRoomOfItsOwn(t *testing.T) {
	d := newDay(t, nil)
	d.want("12:04:30", 5)
	d.cj = d.cj.DeepCopy()
	d.cj.UID, d.cj.Spec.JobTemplate.Spec.Parallelism = "v", ptr.To[int32](2)
	d.want("12:04:31", 2)
}

// A run that waits for an earlier one and is skipped is no evidence of how many pods the next run has.
func TestARunThatIsLeftOutIsNoMeasure(t *testing.T) {
	d := newDay(t, func(_ *karpv1.NodePool, cj *batchv1.CronJob) {
		cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
		cj.Status.Active = []corev1.ObjectReference{{Name: "report-1"}}
	})
	d.want("12:05:00", 0)
	d.want("12:05:30", 0)
	d.cj.Status.Active = nil
	d.want("12:09:30", 5)
}

// Pods count even if no capacity was prepared for them, and even if runs follow each other quickly.
func TestRoomIsPreparedOnceThePoolAllowsIt(t *testing.T) {
	var pool *karpv1.NodePool
	d := newDay(t, func(np *karpv1.NodePool, cj *batchv1.CronJob) {
		pool = np.DeepCopy()
		np.Annotations[translate.AnnotationAhead], cj.Spec.Schedule = "false", "* * * * *"
	})
	for _, run := range []string{"12:01:00", "12:02:00"} {
		d.want(run, 0)
		d.come(5, run)
	}
	pool.ResourceVersion, pool.Annotations = "2", nil
	d.c.o.Planner.State.Update(pool)
	d.want("12:02:30", 5)
}

// A run for which preparing capacity does not pay is planned for at most every ten seconds.
func TestARunWithoutRoomIsPlannedForNowAndThen(t *testing.T) {
	d := newDay(t, func(_ *karpv1.NodePool, cj *batchv1.CronJob) {
		cj.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("99")
	})
	plans := 0
	d.c.o.Planner.Provision = func(s *model.Snapshot, p model.Policy) model.Plan {
		plans++
		return engine.Provision(s, p)
	}
	d.want("12:05:00", 0)
	if plans > 7 {
		t.Errorf("%d plans", plans)
	}
}
