package stories

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// EC2 reclaims 200 spot instances at once, and a thousand other messages arrive in the queue with the warnings. For
// each node another one is launched before it is drained, every pod runs again, the queue is empty, and nothing is
// left over.
func TestTwoHundredSpotMachinesAreTakenBackAtOnce(t *testing.T) {
	machines := interruptions()
	boot := cmp.Or(os.Getenv("NODELESS_BOOT_TIME"), "1s")
	c := up(t, "--boot-time", boot)
	c.apply(spotPool)
	c.apply(deployment("default", "web", machines, "500m", "terminationGracePeriodSeconds: 1",
		"{containerPort: 8080, hostPort: 8080}"))
	c.wantPods(300*time.Second, "default", "web", machines)
	old := map[string]bool{}
	for _, claim := range c.claims() {
		old[string(claim.UID)] = true // by UID: when a plan is made again, its NodeClaim has the same name
	}
	instances, err := c.instances()
	if err != nil || len(instances) != machines || len(old) != machines {
		t.Fatalf("%d instances, %d claims, %v; %s", len(instances), len(old), err, c.idleClaims("default", "app=web"))
	}

	history := c.record(old)
	q := c.queue()
	began := time.Now()
	all := make([]func() error, 0, 1000+machines)
	for i := range 500 {
		all = append(all, q.send(fmt.Sprintf(otherState, i)), q.send("{ this is no event"))
	}
	for i := range instances {
		body := map[string]string{"instanceId": *instances[i].InstanceId}
		all = append(all, func() error { return c.admin("POST", "/_nodeless/interrupt", body, nil) })
	}
	c.atOnce(all)
	c.eventually(300*time.Second, func() error {
		for _, claim := range c.claims() {
			if old[string(claim.UID)] {
				return fmt.Errorf("claim %s is still there", claim.Name)
			}
		}
		return nil
	})
	c.wantPods(300*time.Second, "default", "web", machines)
	t.Logf("%d machines that take %s to boot were replaced and all pods ran %v after the first warning", machines,
		boot, time.Since(began).Round(100*time.Millisecond))
	c.eventually(time.Minute, q.isEmpty)
	c.eventually(time.Minute, c.instancesAreClaims)
	c.nothingLaunchedTwice()
	if ever, most := len(c.everything()), 2*machines+machines/10; ever > most {
		t.Errorf("%d machines were launched, want one for each and one instead of it, and hardly more", ever)
	}
	history.checkOrder(t, machines)
}

// idleClaims describes up to three NodeClaims on whose nodes none of the pods runs, with the pods they were launched
// for and the log's lines about them, and says whether pods were deleted that nobody had asked for.
func (c *cluster) idleClaims(namespace, selector string) string {
	c.t.Helper()
	used, nodeOf := map[string]bool{}, map[string]string{}
	for _, p := range c.podsOf(namespace, selector) {
		used[p.Spec.NodeName] = true
		nodeOf[p.Namespace+"/"+p.Name] = p.Spec.NodeName
	}
	log, _ := os.ReadFile(filepath.Join(c.dir, "logs", "nodeless.log"))
	var out []string
	for _, reason := range []string{"SuccessfulDelete", "TaintManagerEviction"} {
		events, _ := c.run("kubectl", "get", "events", "-A", "--field-selector", "reason="+reason, "--no-headers")
		out = append(out, strings.TrimSpace(events))
	}
	for _, claim := range c.claims() {
		if used[claim.Status.NodeName] || len(out) == 5 {
			continue
		}
		told := fmt.Sprintf("idle: %s on node %q, created %s", claim.Name, claim.Status.NodeName, claim.CreationTimestamp.UTC())
		pods, _ := c.run("decisions", "nodeclaim/"+claim.Name, "-o", "jsonpath={.items[*].pods[*]}")
		for _, pod := range strings.Fields(pods) {
			told += fmt.Sprintf("; for pod %s, which is on node %q", pod, nodeOf[pod])
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, claim.Name) {
				told += "\n" + strings.TrimSpace(line)
			}
		}
		out = append(out, told)
	}
	return strings.Join(out, "\n")
}

// interruptions is how many instances are reclaimed; NODELESS_INTERRUPTIONS overrides it, and NODELESS_BOOT_TIME how
// long instances boot.
func interruptions() int {
	if n, err := strconv.Atoi(os.Getenv("NODELESS_INTERRUPTIONS")); err == nil {
		return n
	}
	return 200
}

const spotPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spot}
spec:
  template:
    metadata: {labels: {team: default}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
`

// otherState is what EventBridge sends all day about other people's instances.
const otherState = `{"version":"0","id":"1","source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","account":"000000000000",
"region":"us-west-2","time":"2026-11-22T01:16:15Z","resources":[],"detail":{"instance-id":"i-%017d","state":"running"}}`

// atOnce runs many functions, sixteen at a time.
func (c *cluster) atOnce(all []func() error) {
	c.t.Helper()
	var wg sync.WaitGroup
	slots, failed := make(chan struct{}, 16), make(chan error, len(all))
	for _, f := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f(); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		c.t.Fatal(err)
	}
}

// sqsQueue is the cluster's interruption queue, as EventBridge and operators see it.
type sqsQueue struct {
	*sqs.Client
	url string
}

func (c *cluster) queue() sqsQueue {
	c.t.Helper()
	q := sqsQueue{Client: sqs.NewFromConfig(aws.Config{
		Region: c.Session.Region, BaseEndpoint: &c.Session.RegionURL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})}
	out, err := q.GetQueueUrl(context.Background(), &sqs.GetQueueUrlInput{QueueName: aws.String("nodeless")})
	if err != nil {
		c.t.Fatal(err)
	}
	q.url = *out.QueueUrl
	return q
}

func (q sqsQueue) send(body string) func() error {
	return func() error {
		_, err := q.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body})
		return err
	}
}

func (q sqsQueue) isEmpty() error {
	out, err := q.GetQueueAttributes(context.Background(),
		&sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
	if err != nil {
		return err
	}
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"} {
		if n := out.Attributes[name]; n != "0" {
			return fmt.Errorf("%s of the queue is %s", name, n)
		}
	}
	return nil
}

// history records when nodes were launched and drained, as resource versions. These are revisions of one etcd, which
// all kinds share here, so the smaller one was written first.
type history struct {
	mu       sync.Mutex
	launched map[string]uint64 // new NodeClaims → when they got their instance
	drained  map[string]uint64 // nodes → when the first pod on them was evicted
	// nodes of old NodeClaims → how long after the notice the claim was deleted
	waited map[string]time.Duration
	broken string // why watching ended early
}

// record watches NodeClaims and pods from now on, ignoring the old NodeClaims.
func (c *cluster) record(old map[string]bool) *history {
	c.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Session.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	api, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c.t.Cleanup(stop)
	h := &history{launched: map[string]uint64{}, drained: map[string]uint64{}, waited: map[string]time.Duration{}}
	for _, list := range []client.ObjectList{&karpv1.NodeClaimList{}, &corev1.PodList{}} {
		if err := api.List(context.Background(), list); err != nil {
			c.t.Fatal(err)
		}
		go h.follow(ctx, api, list, old)
	}
	return h
}

// follow watches a kind, starting at the list's version. It resumes watches that end, as they do when an API server
// is busy.
func (h *history) follow(ctx context.Context, api client.WithWatch, list client.ObjectList, old map[string]bool) {
	version := list.GetResourceVersion()
	for ctx.Err() == nil {
		w, err := api.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for e := range w.ResultChan() {
			if o, ok := e.Object.(client.Object); ok && e.Type != watch.Error {
				version = o.GetResourceVersion()
			}
			h.saw(e, old)
		}
		w.Stop()
	}
}

func (h *history) saw(e watch.Event, old map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := func(m map[string]uint64, key string, o client.Object) {
		if v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err == nil && (m[key] == 0 || v < m[key]) {
			m[key] = v
		}
	}
	switch o := e.Object.(type) {
	case *metav1.Status:
		h.broken = o.Message
	case *karpv1.NodeClaim:
		_, notice, _ := strings.Cut(o.Annotations["nodeless.sh/interrupted"], " ")
		since, err := time.Parse(time.RFC3339, notice)
		switch isOld := old[string(o.UID)]; {
		case !isOld && o.Status.ProviderID != "":
			first(h.launched, string(o.UID), o)
		case isOld && o.DeletionTimestamp != nil && err == nil:
			h.waited[o.Status.NodeName] = o.DeletionTimestamp.Sub(since)
		}
	case *corev1.Pod:
		if o.Spec.NodeName != "" && (o.DeletionTimestamp != nil || e.Type == watch.Deleted) {
			first(h.drained, o.Spec.NodeName, o)
		}
	}
}

// checkOrder checks that whenever the drain of a node begins, more nodes have been launched than drains begun before.
// Each pod needs a node of its own, so every drain must be preceded by a launch. A claim that is deleted a minute or
// more after its notice has waited as long as it may (ADR 7): its drain does not count.
func (h *history) checkOrder(t *testing.T, machines int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var launched, drained []uint64
	for _, v := range h.launched {
		launched = append(launched, v)
	}
	for node, v := range h.drained {
		if h.waited[node] < time.Minute {
			drained = append(drained, v)
		}
	}
	slices.Sort(launched)
	slices.Sort(drained)
	if len(launched) < machines || len(h.drained) < machines {
		t.Fatalf("%d launches and %d drains were seen, want %d of each %s", len(launched), len(h.drained), machines, h.broken)
	}
	if n := len(h.drained) - len(drained); n > 0 {
		t.Logf("%d of %d drains began a minute after the notice", n, len(h.drained))
	}
	late := 0
	for i := range min(machines, len(drained)) {
		if launched[i] >= drained[i] {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d of %d drains began before another machine was launched: launches %s, drains %s", late, machines,
			brief(launched), brief(drained))
	}
}

func brief(versions []uint64) string {
	return strings.Join([]string{fmt.Sprint(versions[0]), "…", fmt.Sprint(versions[len(versions)-1])}, "")
}
