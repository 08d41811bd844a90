package stories

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// gameIngress is the article's 2048-ingress.yaml, with the same fields as in the repository that the article clones.
const gameIngress = `
apiVersion: v1
kind: Service
metadata: {namespace: game-2048, name: service-2048}
spec:
  ports: [{port: 80, targetPort: 80, protocol: TCP}]
  type: NodePort
  selector: {app.kubernetes.io/name: app-2048}
---
apiVersion: eks.amazonaws.com/v1
kind: IngressClassParams
metadata: {namespace: game-2048, name: params}
spec: {scheme: internet-facing}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {namespace: game-2048, name: alb, labels: {app.kubernetes.io/name: LoadBalancerController}}
spec:
  controller: eks.amazonaws.com/alb
  parameters: {apiGroup: eks.amazonaws.com, kind: IngressClassParams, name: params}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {namespace: game-2048, name: ingress-2048}
spec:
  ingressClassName: alb
  rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: service-2048, port: {number: 80}}}}]}}]
`

// gameHasAnAddress gives the game on Graviton an ALB, allows the ALB to reach the nodes, and opens the game.
func (c *cluster) gameHasAnAddress() {
	c.t.Helper()
	c.apply(gameIngress)
	c.kubectl("wait", "ingress", "-n", "game-2048", "ingress-2048", "--timeout=240s",
		"--for=jsonpath={.status.loadBalancer.ingress[0].ip}")
	c.eventually(patience, func() error { // controllers write endpoints a little later
		shown := c.kubectl("get", "ingressclass,ingressclassparams,ingress,svc,ep", "-n", "game-2048")
		return matches(shown,
			`ingressclass\.networking\.k8s\.io/alb +eks.amazonaws.com/alb +IngressClassParams.eks.amazonaws.com/params `,
			`ingressclassparams\.eks\.amazonaws\.com/params +internet-facing `,
			`ingress.networking.k8s.io/ingress-2048 +alb +\* +\S+ +80 `,
			`service/service-2048 +NodePort .* 80:3\d{4}/TCP`, `endpoints/service-2048 +[\d.]+:80,[\d.]+:80 `)
	})

	albGroup := c.textOf("elbv2", "describe-load-balancers", "--query",
		"LoadBalancers[?contains(DNSName, `game2048`)].SecurityGroups[0]")
	eksGroup := c.textOf("eks", "describe-cluster", "--name", "nodeless", "--query",
		"cluster.resourcesVpcConfig.clusterSecurityGroupId")
	rule := []string{
		"--group-id", eksGroup, "--source-group", albGroup, "--protocol", "tcp", "--port", "80",
	}
	c.awsCLI(append([]string{"ec2", "authorize-security-group-ingress"}, rule...)...)
	for group, want := range map[string]string{eksGroup: albGroup, albGroup: "0.0.0.0/0"} {
		if got := c.textOf("ec2", "describe-security-groups", "--group-ids", group, "--query",
			"SecurityGroups[].IpPermissions[?ToPort==`80`][].[UserIdGroupPairs[].GroupId, IpRanges[].CidrIp][][]"); got != want {
			c.t.Errorf("port 80 of security group %s is open to %q, want %s", group, got, want)
		}
	}
	c.gameIsSimulated()

	c.awsCLI(append([]string{"ec2", "revoke-security-group-ingress"}, rule...)...)
	c.kubectl("delete", "ingress", "-n", "game-2048", "ingress-2048")
	c.eventually(time.Minute, func() error {
		if left := c.textOf("ec2", "describe-security-groups", "--query",
			"SecurityGroups[?GroupId=='"+albGroup+"'].GroupName"); left != "" {
			return fmt.Errorf("security group %s of the load balancer is still there", left)
		}
		return nil
	})
}

// textOf returns the text output of an AWS CLI command.
func (c *cluster) textOf(args ...string) string {
	c.t.Helper()
	return strings.TrimSpace(c.awsCLI(append(args, "--output", "text")...))
}

// gameIsSimulated opens the game at the address that kubectl shows. Pods on simulated nodes do not respond, and the
// load balancer says so.
func (c *cluster) gameIsSimulated() {
	c.t.Helper()
	var at struct {
		IP, Hostname string
		Ports        []struct{ Port int }
	}
	if err := json.Unmarshal([]byte(c.kubectl("get", "ingress", "-n", "game-2048", "ingress-2048", "-o",
		"jsonpath={.status.loadBalancer.ingress[0]}")), &at); err != nil {
		c.t.Fatal(err)
	}
	name := c.textOf("elbv2", "describe-load-balancers", "--query", "LoadBalancers[].DNSName")
	if err := matches(name, `^k8s-game2048-ingress2-[0-9a-f]{10}-[0-9a-f]+\.ap-northeast-2\.elb\.localhost$`); err != nil {
		c.t.Error(err)
	}
	address := fmt.Sprintf("http://%s:%d/", at.IP, at.Ports[0].Port)
	if at.Hostname != "" { // no other cluster on this host uses the port
		if address = "http://" + at.Hostname + "/"; at.Hostname != name {
			c.t.Errorf("the hostname is %s, at AWS %s", at.Hostname, name)
		}
	}
	c.eventually(time.Minute, func() error {
		answer, err := asBrowsers.Get(address)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("%s: %s %v\n%s", address, answer.Status, err, body) //nolint:errorlint // it may be nil
		}
		return matches(string(body), `is a simulated pod on instance i-[0-9a-f]{17}: it pretends to run`)
	})
}
