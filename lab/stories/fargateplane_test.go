package stories

import (
	"fmt"
	"regexp"
	"strings"
)

// schedulerMetrics is where EKS serves kube-scheduler's metrics.
const schedulerMetrics = "/apis/metrics.eks.amazonaws.com/v1/ksh/container/metrics"

// controlPlaneIsEKSs checks what EKS adds to a control plane.
func (c *cluster) controlPlaneIsEKSs() {
	c.t.Helper()
	c.shows(`service/kubernetes +ClusterIP .* 443/TCP (?s:.*)endpoints/kubernetes +[\d.]+:\d+ `, "get", "svc,ep")
	c.shows(`(?m)^fargate-ip-[\d-]+\.us-west-2\.compute\.internal +Ready +<none> `, "get", "node", "-owide")
	c.shows(`v1\.metrics\.eks\.amazonaws\.com +kube-system/eks-extension-metrics-api +True `, "get",
		"apiservices.apiregistration.k8s.io")
	c.shows("eks-extension-metrics-api", "get", "svc,ep", "-n", "kube-system")
	c.shows(`"name":"metrics.eks.amazonaws.com"`, "get", "--raw", "/apis/metrics.eks.amazonaws.com")
	c.shows("ksh/metrics", "get", "--raw", "/apis/metrics.eks.amazonaws.com/v1")
	c.shows(`\nscheduler_pending_pods{`, "get", "--raw", schedulerMetrics)
	c.shows(`(?m)^aws-auth +1 (?s:.*)^extension-apiserver-authentication +6 `, "get", "cm", "-n", "kube-system")
	c.shows("client-ca-file", "get", "cm", "-n", "kube-system", "extension-apiserver-authentication", "-o", "yaml")
	// Two profiles, two entries.
	entry := "- system:node-proxier\n      - system:nodes\n      rolearn: " + podExecutionRole +
		"\n      username: system:node:{{SessionName}}"
	c.eventually(patience, func() error {
		auth := c.kubectl("get", "cm", "-n", "kube-system", "aws-auth", "-o", "yaml")
		if strings.Count(auth, entry) != 2 {
			return fmt.Errorf("aws-auth has not twice\n%s\n%s", entry, auth)
		}
		return nil
	})
}

// kubeOpsViewChart is the output of "helm install kube-ops-view geek-cookbook/kube-ops-view --version 1.2.2 --set
// env.TZ=Asia/Seoul", reduced to what the article looks at.
const kubeOpsViewChart = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: kube-ops-view
  namespace: kube-system
  labels: {app.kubernetes.io/instance: kube-ops-view, app.kubernetes.io/name: kube-ops-view}
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector:
    matchLabels: {app.kubernetes.io/instance: kube-ops-view, app.kubernetes.io/name: kube-ops-view}
  template:
    metadata:
      labels: {app.kubernetes.io/instance: kube-ops-view, app.kubernetes.io/name: kube-ops-view}
    spec:
      containers:
      - name: kube-ops-view
        image: hjacobs/kube-ops-view:20.4.0
        env: [{name: TZ, value: Asia/Seoul}]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {tcpSocket: {port: 8080}}
`

// kubeOpsViewIsForwarded opens, by port-forward, the stand-in for kube-ops-view, whose image is not available here.
func (c *cluster) kubeOpsViewIsForwarded() {
	c.t.Helper()
	c.apply(kubeOpsViewChart)
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "kube-ops-view", "--timeout=240s")
	forward := c.line(c.streaming("port-forward", "deployment/kube-ops-view", "-n", "kube-system", ":8080"),
		`^Forwarding from 127\.0\.0\.1:\d+ -> 8080$`)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(forward)
	if page := get(c.t, "http://"+address+"/"); !strings.Contains(page, "nginx") {
		c.t.Errorf("the page is %q", page)
	}
	for _, want := range []string{
		"CapacityProvisioned: 0.25vCPU 0.5GB", "LoggingEnabled", "Successfully assigned kube-system/kube-ops-view",
	} {
		c.shows(regexp.QuoteMeta(want), "describe", "pod", "-n", "kube-system", "-l", "app.kubernetes.io/instance=kube-ops-view")
	}
	c.kubectl("delete", "-n", "kube-system", "deployment", "kube-ops-view")
	c.eventually(patience, func() error {
		if n := len(c.nodes()); n != 2 {
			return fmt.Errorf("%d nodes, want CoreDNS's two", n)
		}
		return nil
	})
}
