package stories

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BenchmarkJobsInTurns has the same short jobs come to two clusters side by side, whose machines have turns (feature gate FillOrder) or not, for as
// long as JOBS says: one a second, half of them done in 28 s as in the trace alibaba2017, the mean a minute. It counts moves, and dollars.
func BenchmarkJobsInTurns(b *testing.B) {
	length, err := time.ParseDuration(os.Getenv("JOBS"))
	if err != nil {
		length = 12 * time.Minute
	}
	for range b.N {
		var work sync.WaitGroup
		for name, gate := range map[string]string{"with": "FillOrder=true", "without": "FillOrder=false"} {
			c := up(b, "--boot-time", "20s", "--feature-gates", gate)
			c.kubectl("patch", "nodepool", "general-purpose", "--type", "json", "-p",
				`[{"op":"add","path":"/spec/template/spec/requirements/-","value":{"key":"karpenter.k8s.aws/instance-cpu","operator":"Lt","values":["33"]}}]`)
			moved, dollars := c.countMoves(), 0.0
			work.Go(func() { dollars = c.jobsComeAndGo(length) })
			defer func() {
				b.ReportMetric(float64(moved()), "moves-"+name)
				b.ReportMetric(dollars, "$-"+name)
			}()
		}
		work.Wait()
		b.ReportMetric(0, "ns/op")
	}
}

// jobsComeAndGo creates jobs for so long, and says what the machines cost meanwhile.
func (c *cluster) jobsComeAndGo(length time.Duration) (dollars float64) {
	const pause = time.Second
	chance := rand.New(rand.NewPCG(1, 3))
	tick := time.NewTicker(pause)
	defer tick.Stop()
	last := time.Now()
	for i := range int(length / pause) {
		life := time.Duration(28 * math.Exp(1.2*chance.NormFloat64()) * float64(time.Second)).Round(time.Second)
		if err := c.Create(context.Background(), shortJob(i, int64(500<<chance.IntN(4)), life)); err != nil {
			c.t.Error(err)
		}
		now := <-tick.C
		dollars += c.dollars() * now.Sub(last).Hours()
		last = now
	}
	return dollars
}

func shortJob(i int, milli int64, life time.Duration) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("job-", i)}}
	job.Spec.BackoffLimit = ptr.To[int32](100)
	pod := &job.Spec.Template
	pod.Annotations = map[string]string{"nodeless.sh/run-for": life.String()}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers = []corev1.Container{{Name: "work", Image: "work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(milli<<22, resource.BinarySI),
	}}}}
	return job
}

// countMoves counts the pods that are evicted from now on.
func (c *cluster) countMoves() func() int {
	w := c.watch(&corev1.PodList{}, client.InNamespace("default"))
	var mu sync.Mutex
	moved := map[types.UID]bool{}
	go func() {
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			for _, x := range p.Status.Conditions {
				if x.Type == corev1.DisruptionTarget && x.Status == corev1.ConditionTrue {
					mu.Lock()
					moved[p.UID] = true
					mu.Unlock()
				}
			}
		}
	}()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(moved)
	}
}
