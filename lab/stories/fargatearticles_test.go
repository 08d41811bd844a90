package stories

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Manifests of two articles about Fargate, as printed there. Their images are built on this host, with the same
// names.
const (
	// eksCoreDNS is EKS's add-on before it is patched for Fargate: the annotation keeps its pods off Fargate.
	eksCoreDNS = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata:
      labels: {k8s-app: kube-dns}
      annotations: {eks.amazonaws.com/compute-type: ec2}
    spec:
      serviceAccountName: kube-dns
      dnsPolicy: Default
      containers:
      - name: coredns
        image: example.local/kube-dns:1
        readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 2}
        resources: {requests: {cpu: 250m, memory: 256M}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec: {maxUnavailable: 1, selector: {matchLabels: {k8s-app: kube-dns}}}
`
	netshoot = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: netshoot
  namespace: study-aews
spec:
  replicas: 1
  selector:
    matchLabels:
      app: netshoot
  template:
    metadata:
      labels:
        app: netshoot
    spec:
      containers:
      - name: netshoot
        image: nicolaka/netshoot
        command: ["tail"]
        args: ["-f", "/dev/null"]
        resources: 
          requests:
            cpu: 500m
            memory: 500Mi
          limits:
            cpu: 2
            memory: 2Gi
      terminationGracePeriodSeconds: 0
`
	rootShell = `
apiVersion: v1
kind: Pod
metadata:
  name: root-shell
  namespace: study-aews
spec:
  containers:
  - command:
    - /bin/cat
    image: alpine:3
    name: root-shell
    securityContext:
      privileged: true
    tty: true
    stdin: true
    volumeMounts:
    - mountPath: /host
      name: hostroot
  hostNetwork: true
  hostPID: true
  hostIPC: true
  tolerations:
  - effect: NoSchedule
    operator: Exists
  - effect: NoExecute
    operator: Exists
  volumes:
  - hostPath:
      path: /
    name: hostroot
`
	game = `
apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: study-aews
  name: deployment-2048
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: app-2048
  replicas: 2
  template:
    metadata:
      labels:
        app.kubernetes.io/name: app-2048
    spec:
      containers:
      - image: public.ecr.aws/l6m2t8p7/docker-2048:latest
        imagePullPolicy: Always
        name: app-2048
        ports:
        - containerPort: 80
---
apiVersion: v1
kind: Service
metadata:
  namespace: study-aews
  name: service-2048
spec:
  ports:
    - port: 80
      targetPort: 80
      protocol: TCP
  type: ClusterIP
  selector:
    app.kubernetes.io/name: app-2048
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: study-aews
  name: ingress-2048
  annotations:
    alb.ingress.kubernetes.io/scheme: internet-facing
    alb.ingress.kubernetes.io/target-type: ip
spec:
  ingressClassName: alb
  rules:
    - http:
        paths:
        - path: /
          pathType: Prefix
          backend:
            service:
              name: service-2048
              port:
                number: 80
`
	sampleApp = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: sample-app
  namespace: study-aews
spec:
  replicas: 2
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
    spec:
      containers:
      - image: nginx:latest
        name: nginx
        ports:
        - containerPort: 80
          name: http
        resources:
          requests:
            cpu: 500m
            memory: 500Mi
          limits:
            cpu: 2
            memory: 2Gi
---
apiVersion: v1
kind: Service
metadata:
  name: sample-app
  namespace: study-aews
spec:
  selector:
    app: nginx
  ports:
  - port: 80
    targetPort: 80
    protocol: TCP
  type: ClusterIP
`
	// fargateLogs is the ConfigMap that the article's Terraform module creates for flb_log_cw.
	fargateLogs = `
apiVersion: v1
kind: Namespace
metadata: {name: aws-observability, labels: {aws-observability: enabled}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: aws-logging, namespace: aws-observability}
data:
  flb_log_cw: "true"
  output.conf: |
    [OUTPUT]
      Name cloudwatch_logs
      Match *
      region ap-northeast-2
      log_group_name /fargate-serverless/fargate-fluentbit-logs
      log_stream_prefix fargate-logs-
      auto_create_group true
`
)

// Two articles about Fargate, command by command: a cluster without nodes that pods share, CoreDNS patched to run in
// microVMs, profiles created with the EKS API, what the webhook adds and refuses, the game behind an Ingress, logs in
// CloudWatch.
func TestTheArticlesAboutFargate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root microVMs have no Services")
	}
	needMicroVMs(t)
	needBrowser(t)
	c := podHost(t)
	c.buildArticleImages()
	c.kubectl("delete", "nodepool", "--all") // no nodes but Fargate's
	c.apply(fargateLogs)

	c.corednsOnFargate()

	c.awsCLI("eks", "create-fargate-profile", "--cluster-name", "nodeless", "--fargate-profile-name", "study_wildcard",
		"--selectors", "namespace=study-*", "--pod-execution-role-arn", podExecutionRole)
	c.awsCLI("eks", "wait", "fargate-profile-active", "--cluster-name", "nodeless", "--fargate-profile-name", "study_wildcard")
	c.controlPlaneIsEKSs()
	c.kubeOpsViewIsForwarded()
	c.kubectl("create", "ns", "study-aews")
	c.netshootIsSized()
	c.netshootIsEntered()
	c.rootShellIsRefused()
	c.aGameIsPlayed()
	c.logsAreInCloudWatch()

	c.kubectl("delete", "ns", "study-aews")
	c.kubectl("delete", "deploy", "-n", "kube-system", "coredns")
	c.eventually(patience, c.nothingOfMicroVMs)
}

const podExecutionRole = "arn:aws:iam::123456789012:role/AmazonEKSFargatePodExecutionRole"

// awsCLI runs Debian's AWS CLI against the region, and fails the test if it fails.
func (c *cluster) awsCLI(args ...string) string {
	c.t.Helper()
	out, err := c.tryAWSCLI(args...)
	if err != nil {
		c.t.Fatalf("aws %s: %v (scripts/test-deps installs the CLI)\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (c *cluster) tryAWSCLI(args ...string) (string, error) {
	// Debian's version does not read AWS_ENDPOINT_URL.
	cmd := exec.Command(debianAWS,
		append([]string{"--endpoint-url", c.Session.RegionURL, "--region", c.Session.Region}, args...)...)
	cmd.Env = c.environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// shows checks that the output of a kubectl command comes to match a pattern: controllers write much of it a little
// later.
func (c *cluster) shows(pattern string, args ...string) {
	c.t.Helper()
	if err := eventually(patience, func() error { return matches(c.kubectl(args...), pattern) }); err != nil {
		c.t.Errorf("kubectl %s: %v", strings.Join(args, " "), err)
	}
}

// buildArticleImages builds the images named in the articles' manifests from a busybox that also provides curl and
// Alpine's fstab.
func (c *cluster) buildArticleImages() {
	c.t.Helper()
	dir := c.t.TempDir()
	install := exec.Command("sh", "-c", `mkdir -p bin etc www tmp && cp "$(command -v busybox)" bin/busybox &&
		bin/busybox --install bin && echo '<title>Welcome to nginx!</title>' >www/index.html &&
		printf '#!/bin/sh\nexec wget -q -O - "http://$1/"\n' >bin/curl && chmod +x bin/curl &&
		echo '/dev/cdrom /media/cdrom iso9660 noauto,ro 0 0' >etc/fstab`)
	install.Dir = dir
	httpd := []string{"--", "httpd", "-f", "-vv", "-p", "80", "-h", "/www"}
	examples, program := filepath.Join(root, "examples"), absolute(c.t, binary)
	for _, build := range []*exec.Cmd{
		install,
		exec.Command(filepath.Join(examples, "kube-dns-image"), program),
		exec.Command(filepath.Join(examples, "2048-image"), program, "public.ecr.aws/l6m2t8p7/docker-2048:latest", "80"),
		exec.Command(program, append([]string{"image", "build", dir, "--tag", "nicolaka/netshoot"}, httpd...)...),
		exec.Command(program, append([]string{"image", "build", dir, "--tag", "nginx:latest"}, httpd...)...),
		exec.Command(program, "image", "build", dir, "--tag", "hjacobs/kube-ops-view:20.4.0", "--", "httpd", "-f", "-p", "8080",
			"-h", "/www"),
	} {
		build.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
		if out, err := build.CombinedOutput(); err != nil {
			c.t.Fatalf("%s: %v\n%s", build, err, out)
		}
	}
}

// corednsOnFargate creates a profile with the AWS CLI and patches CoreDNS to match it, as the first article does.
func (c *cluster) corednsOnFargate() {
	c.t.Helper()
	manifest, err := os.ReadFile(filepath.Join(root, "examples", "kube-dns.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, part := range strings.Split(string(manifest), "\n---\n") { // its service account, roles and Service
		if !strings.Contains(part, "kind: Deployment") && !strings.Contains(part, "kind: FargateProfile") {
			c.apply(part)
		}
	}
	c.apply(eksCoreDNS)
	create := []string{
		"eks", "create-fargate-profile", "--fargate-profile-name", "kube-system", "--cluster-name", "nodeless",
		"--pod-execution-role-arn", podExecutionRole, "--subnets",
	}
	out, err := c.tryAWSCLI(append(create, "subnet-1", "subnet-2", "subnet-3")...)
	if err == nil || matches(out, `\(InvalidParameterException\) .* requires at least one selector`) != nil {
		c.t.Errorf("the article's command has no selector: %v\n%s", err, out)
	}
	subnets := strings.Fields(c.awsCLI("ec2", "describe-subnets", "--query", "Subnets[].SubnetId", "--output", "text"))
	c.awsCLI(append(append(create, subnets...), "--selectors", "namespace=kube-system")...)
	c.awsCLI("eks", "wait", "fargate-profile-active", "--cluster-name", "nodeless", "--fargate-profile-name", "kube-system")
	c.kubectl("patch", "deployment", "coredns", "-n", "kube-system", "--type=json",
		`-p=[{"op": "remove", "path": "/spec/template/metadata/annotations", "value": "eks.amazonaws.com/compute-type"}]`)
	c.kubectl("rollout", "restart", "-n", "kube-system", "deployment", "coredns")
	c.kubectl("rollout", "status", "-n", "kube-system", "deployment", "coredns", "--timeout=240s")
	c.eventually(patience, func() error {
		pods := c.podsOf("kube-system", "k8s-app=kube-dns")
		for i := range pods {
			if want := "fargate-ip-" + strings.ReplaceAll(pods[i].Status.PodIP, ".", "-"); !strings.HasPrefix(
				pods[i].Spec.NodeName, want) {
				return fmt.Errorf("pod %s is on %s, want %s", pods[i].Name, pods[i].Spec.NodeName, want)
			}
		}
		if len(pods) != 2 || len(c.nodes()) != 2 {
			return fmt.Errorf("%d pods of CoreDNS and %d nodes, want two of each", len(pods), len(c.nodes()))
		}
		return matches(c.kubectl("get", "pdb", "-n", "kube-system"), `coredns +N/A +1 +1 `)
	})
}

func (c *cluster) podsOf(namespace, selector string) []corev1.Pod {
	c.t.Helper()
	var list corev1.PodList
	key, value, _ := strings.Cut(selector, "=")
	if err := c.List(context.Background(), &list, client.InNamespace(namespace), client.MatchingLabels{key: value}); err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// netshootIsSized compares what the webhook and the scheduler set on a Deployment's pod with the article's output.
func (c *cluster) netshootIsSized() {
	c.t.Helper()
	c.apply(netshoot)
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment", "netshoot", "--timeout=240s")
	p := c.podsOf("study-aews", "app=netshoot")[0]
	got := map[string]any{
		"CapacityProvisioned": p.Annotations["CapacityProvisioned"], "Logging": p.Annotations["Logging"],
		"priority": *p.Spec.Priority, "class": p.Spec.PriorityClassName, "scheduler": p.Spec.SchedulerName,
		"qos": p.Status.QOSClass,
		"deployment": strings.TrimSpace(c.kubectl("get", "deploy", "-n", "study-aews", "netshoot", "-o",
			"jsonpath={.spec.template.spec.schedulerName}")),
	}
	want := map[string]any{
		"CapacityProvisioned": "0.5vCPU 1GB", "Logging": "LoggingEnabled", "priority": int32(2000001000),
		"class": "system-node-critical", "scheduler": "fargate-scheduler", "qos": corev1.PodQOSBurstable,
		"deployment": "default-scheduler",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.t.Errorf("the pod is %v\nwant %v", got, want)
	}
	c.shows(`0500-amazon-eks-fargate-mutation\.amazonaws\.com +2 `, "get", "mutatingwebhookconfigurations")
	c.kubectl("describe", "mutatingwebhookconfigurations", "0500-amazon-eks-fargate-mutation.amazonaws.com")
	c.shows(`fargate-validation +4 `, "get", "validatingwebhookconfigurations")
	c.shows("eks.amazonaws.com/compute-type=fargate", "describe", "node", p.Spec.NodeName)
}

// netshootIsEntered runs in a pod what the article types into its shell, as far as busybox can.
func (c *cluster) netshootIsEntered() {
	c.t.Helper()
	own := c.podsOf("study-aews", "app=netshoot")[0].Status.PodIP
	dns := c.podsOf("kube-system", "k8s-app=kube-dns")[0].Status.PodIP
	for command, want := range map[string]string{
		"ip a":                 `eth0: .*(?s:.*) inet ` + own + `/`,
		"cat /etc/resolv.conf": `search study-aews.svc.cluster.local svc.cluster.local cluster.local`,
		"ping -c 1 " + dns:     `1 packets transmitted, 1 packets received, 0% packet loss`,
		"df -hT /":             `overlay +overlay +19\.\dG .* /\n`, // of 20 GiB
		"cat /etc/fstab":       `/dev/cdrom /media/cdrom iso9660 noauto,ro 0 0`,
	} {
		c.shows(want, append([]string{"exec", "deploy/netshoot", "-n", "study-aews", "--"}, strings.Fields(command)...)...)
	}
}

// rootShellIsRefused tries to take over a host with a pod whose fields Fargate rejects.
func (c *cluster) rootShellIsRefused() {
	c.t.Helper()
	c.apply(rootShell)
	c.eventually(patience, func() error {
		out := c.kubectl("describe", "pod", "-n", "study-aews", "root-shell")
		if !strings.Contains(out, "Pod not supported on Fargate: fields not supported: HostNetwork, HostPID, HostIPC, "+
			"invalid SecurityContext fields: Privileged, volumes not supported: hostroot is of an unsupported volume Type") {
			return fmt.Errorf("the pod:\n%s", out)
		}
		return nil
	})
	c.kubectl("delete", "pod", "-n", "study-aews", "root-shell")
}

// asBrowsers resolves names under localhost to this host, as browsers and curl do (RFC 6761, section 6.3).
var asBrowsers = &http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(address)
		if strings.HasSuffix(host, ".localhost") {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	},
}}

// aGameIsPlayed makes a move of the game at the address that kubectl shows, and scales the game.
func (c *cluster) aGameIsPlayed() {
	c.t.Helper()
	c.apply(game)
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment", "deployment-2048", "--timeout=240s")
	before := len(c.nodes())
	address := ""
	c.eventually(patience, func() error {
		address = "http://" + c.kubectl("get", "ingress", "-n", "study-aews", "ingress-2048", "-o",
			"jsonpath={.status.loadBalancer.ingress[0].hostname}") + "/"
		answer, err := asBrowsers.Get(address)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(page), "<title>2048</title>") {
			return fmt.Errorf("%s: %s %v\n%s", address, answer.Status, err, page) //nolint:errorlint // it may be nil
		}
		return nil
	})
	pictures := os.Getenv("SCREENSHOTS")
	if pictures == "" {
		pictures = c.t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	move := exec.CommandContext(ctx, "node", "test/game2048.mjs", address, filepath.Join(pictures, "2048.png"))
	move.Dir = filepath.Join(root, "view", "web", "page")
	if out, err := move.CombinedOutput(); err != nil {
		c.t.Errorf("%v\n%s", err, out)
	}
	page, err := exec.CommandContext(ctx, "curl", "-fsS", "--noproxy", "*", address).CombinedOutput()
	if err != nil || !strings.Contains(string(page), "<title>2048</title>") {
		c.t.Errorf("curl %s: %v\n%s", address, err, page)
	}
	c.shows(`ingress-2048 +alb +\* +\S+ +80 (?s:.*)endpoints/service-2048 +[\d.]+:80,[\d.]+:80 (?s:.*)`+
		`pod/deployment-2048-\S+ +1/1 `, "get", "ingress,svc,ep,pod", "-n", "study-aews")
	c.shows(`/ +service-2048:80 \([\d.]+:80,[\d.]+:80\)`, "describe", "ingress", "-n", "study-aews", "ingress-2048")
	c.shows(`service-2048 +80 `, "get", "targetgroupbindings", "-n", "study-aews")
	c.kubectl("scale", "deployment", "-n", "study-aews", "deployment-2048", "--replicas", "4")
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment", "deployment-2048", "--timeout=240s")
	if n := len(c.nodes()); n != before+2 {
		c.t.Errorf("%d nodes where there were %d: want one more for each of two pods", n, before)
	}
	c.kubectl("delete", "ingress", "ingress-2048", "-n", "study-aews")
	c.kubectl("delete", "svc", "service-2048", "-n", "study-aews")
	c.kubectl("delete", "deploy", "deployment-2048", "-n", "study-aews")
}

// logsAreInCloudWatch sends requests to the pods' Service from one of them, and finds the requests in both pods'
// logs.
func (c *cluster) logsAreInCloudWatch() {
	c.t.Helper()
	vpcs := c.awsCLI("ec2", "describe-vpcs", "--filter", "Name=isDefault,Values=false", "--output", "yaml")
	if err := matches(vpcs, `(?m)^Vpcs:$`, `\bIsDefault: false\b`, `\bVpcId: vpc-`); err != nil {
		c.t.Errorf("aws ec2 describe-vpcs: %v", err)
	}
	c.shows(`aws-observability +Active .*\baws-observability=enabled\b`, "get", "ns", "--show-labels")
	c.shows(`(?m)^aws-logging +2 `, "get", "cm", "-n", "aws-observability")
	c.shows(`log_group_name /fargate-serverless/fargate-fluentbit-logs\n`, "get", "cm", "-n", "aws-observability",
		"aws-logging", "-o", "yaml")
	c.apply(sampleApp)
	c.kubectl("rollout", "status", "-n", "study-aews", "deployment", "sample-app", "--timeout=240s")
	pods := c.podsOf("study-aews", "app=nginx")
	const group = "/fargate-serverless/fargate-fluentbit-logs"
	c.eventually(patience, func() error {
		out, err := c.run("kubectl", "exec", "deploy/sample-app", "-n", "study-aews", "--", "curl", "sample-app")
		if err != nil || !strings.Contains(out, "<title>Welcome to nginx!</title>") {
			return fmt.Errorf("curl sample-app: %v\n%s", err, out)
		}
		var found struct {
			Events []struct{ LogStreamName, Message string }
		}
		answer := c.awsCLI("logs", "filter-log-events", "--log-group-name", group, "--output", "json")
		if err := json.Unmarshal([]byte(answer), &found); err != nil {
			return err
		}
		for i := range pods {
			if !slices.ContainsFunc(found.Events, func(e struct{ LogStreamName, Message string }) bool {
				return strings.HasPrefix(e.LogStreamName, "fargate-logs-") && strings.Contains(e.LogStreamName, pods[i].Name) &&
					strings.Contains(e.Message, "url:/")
			}) {
				return fmt.Errorf("of pod %s nothing is in the log group: %s", pods[i].Name, answer)
			}
		}
		return nil
	})
	for i := range pods {
		c.shows(`: url:/\n`, "logs", "-n", "study-aews", pods[i].Name)
		line := `fargate-logs-\S+` + pods[i].Name + `_study-aews_nginx-\S+ .*: url:/"`
		if err := matches(c.awsCLI("logs", "tail", group), line); err != nil {
			c.t.Errorf("aws logs tail %s: %v", group, err)
		}
	}
}
