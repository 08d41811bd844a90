package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/lab/process"
)

// cluster is a control plane and a region for one run, with the controller of one side.
type cluster struct {
	dir        string // of the run; logs stay there
	bin        string // folder of the programs
	nodeless   string // the program
	session    process.Session
	config     *rest.Config
	client     kubernetes.Interface
	pools      dynamic.ResourceInterface // NodePools
	claims     dynamic.ResourceInterface // NodeClaims
	up         *process.Process
	side       *side // whose controller runs
	elect      bool  // controllers use leader election
	controller *process.Process
	spent      usage // of controllers that have ended
}

// readyLimit is how long a cluster may take until its first node runs CoreDNS, in addition to boot times.
const readyLimit = 6 * time.Minute

// startCluster starts everything and waits until the add-ons run. The caller must stop the cluster even after an
// error.
func (o *options) startCluster(ctx context.Context, dir string, w *workload, s *side) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit+3*o.boot)
	defer cancel()
	c := &cluster{dir: dir, bin: o.bin, nodeless: filepath.Join(o.bin, "nodeless"), side: s, elect: w.elect}
	var err error
	flags := append([]string{
		"--controller=false", "--page=", "--microvms=false", "--boot-time", o.boot.String(), "--audit-log", c.auditLog(),
		"--ready-timeout", readyLimit.String(),
	}, w.up...)
	c.up, c.session, err = process.Up(ctx, dir, c.nodeless, flags...)
	if err != nil {
		return c, err
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.session.Kubeconfig); err != nil {
		return c, err
	}
	c.config.UserAgent, c.config.QPS, c.config.Burst = "race", 100, 200
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return c, err
	}
	if c.controller, err = s.start(c, o.bin); err != nil {
		return c, err
	}
	objects, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return c, err
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	c.pools = objects.Resource(karpenter.WithResource("nodepools"))
	c.claims = objects.Resource(karpenter.WithResource("nodeclaims"))
	classes := objects.Resource(schema.GroupVersionResource{
		Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses",
	})
	for _, of := range []struct {
		name    string
		objects dynamic.ResourceInterface
	}{{className, classes}, {poolName, c.pools}} {
		err = process.Await(ctx, of.name+" to be Ready", c.controller, func(ctx context.Context) error {
			o, err := of.objects.Get(ctx, of.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return ready(o)
		})
		if err != nil {
			return c, err
		}
	}
	return c, process.Await(ctx, "CoreDNS to run", c.controller, c.addonsRun)
}

// The NodePool and the EC2NodeClass that `nodeless up` creates.
const (
	poolName  = "general-purpose"
	className = "default"
)

// ready returns nil if the object's condition Ready is True.
func ready(u *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, _ := c.(map[string]any); m["type"] == "Ready" && m["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("%s %s is not Ready", u.GetKind(), u.GetName())
}

func (c *cluster) addonsRun(ctx context.Context) error {
	dns, err := c.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if dns.Spec.Replicas == nil || dns.Status.ReadyReplicas < *dns.Spec.Replicas {
		return fmt.Errorf("%d replicas of coredns are Ready", dns.Status.ReadyReplicas)
	}
	return nil
}

func (c *cluster) auditLog() string { return filepath.Join(c.dir, "audit", "audit.log") }

// stop stops the processes and deletes the large files.
func (c *cluster) stop() error {
	for _, p := range []*process.Process{c.controller, c.up} {
		if p != nil {
			p.Stop(stopLimit)
		}
	}
	return errors.Join(os.RemoveAll(filepath.Join(c.dir, "data")), os.RemoveAll(filepath.Dir(c.auditLog())))
}

// apply runs one `kubectl apply` of several objects, in the given order.
func (c *cluster) apply(ctx context.Context, objects ...runtime.Object) error {
	var in bytes.Buffer
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(&in, "---\n%s\n", raw)
	}
	cmd := exec.CommandContext(ctx, c.nodeless, "kubectl", "apply", "-f", "-")
	cmd.Env = append(os.Environ(), "NODELESS_DATA_DIR="+filepath.Join(c.dir, "data"))
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// scale sets the replicas of a Deployment.
func (c *cluster) scale(ctx context.Context, name string, replicas int) error {
	of := c.client.AppsV1().Deployments(corev1.NamespaceDefault)
	s, err := of.GetScale(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("scale %s: %w", name, err)
	}
	s.Spec.Replicas = int32(replicas)
	if _, err := of.UpdateScale(ctx, name, s, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("scale %s: %w", name, err)
	}
	return nil
}

// region calls the simulation's own API. in is the body of a POST; the response is decoded into out.
func (c *cluster) region(ctx context.Context, method, call string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.session.RegionURL+"/_nodeless/"+call, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.session.RegionToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("region: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("region: %s: %s", call, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(out)
}
