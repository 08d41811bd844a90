package stories

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// game2048 is the manifest of AWS's guides to Fargate and Auto Mode, except for the image, which is the example's,
// and its port.
const game2048 = `
apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: study-aews}
spec:
  sizing: Exact
  selectors: [{namespace: study-aews}]
---
apiVersion: v1
kind: Namespace
metadata: {name: study-aews}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: study-aews
  name: deployment-2048
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: app-2048
  replicas: 1
  template:
    metadata:
      labels:
        app.kubernetes.io/name: app-2048
    spec:
      containers:
      - image: example.local/hello:1
        name: app-2048
        ports:
        - containerPort: 8080
        resources: {requests: {cpu: 100m, memory: 64Mi}}
---
apiVersion: v1
kind: Service
metadata:
  namespace: study-aews
  name: service-2048
spec:
  ports:
    - port: 80
      targetPort: 8080
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
    alb.ingress.kubernetes.io/wafv2-acl-arn: arn:aws:wafv2:none
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

// opensTheGame applies the guides' game, opens it through its Ingress, and deletes it.
func (c *cluster) opensTheGame() {
	c.t.Helper()
	c.apply(game2048)
	c.gameAnswers()
	if got := c.kubectl("describe", "ingress", "-n", "study-aews", "ingress-2048"); !strings.Contains(got, "wafv2-acl-arn") ||
		!strings.Contains(got, "UnsupportedAnnotation") || !strings.Contains(got, "SuccessfullyReconciled") {
		c.t.Errorf("events of the Ingress:\n%s", got)
	}
	if got := c.kubectl("get", "targetgroupbindings", "-n", "study-aews"); !strings.Contains(got, "service-2048   80") {
		c.t.Errorf("TargetGroupBindings:\n%s", got)
	}
	c.kubectl("delete", "namespace", "study-aews")
	c.kubectl("delete", "fargateprofile", "study-aews")
}

// gameAnswers waits until one of the game's pods responds through its Ingress, and returns the Ingress's address.
func (c *cluster) gameAnswers() (address string) {
	c.t.Helper()
	c.eventually(patience, func() error {
		var i networkingv1.Ingress
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "study-aews", Name: "ingress-2048"}, &i); err != nil {
			return err
		}
		if len(i.Status.LoadBalancer.Ingress) != 1 || len(i.Status.LoadBalancer.Ingress[0].Ports) != 1 {
			return fmt.Errorf("status %+v", i.Status)
		}
		at := i.Status.LoadBalancer.Ingress[0]
		if os.Geteuid() == 0 && at.Ports[0].Port != 80 {
			return fmt.Errorf("it listens on port %d", at.Ports[0].Port)
		}
		address = fmt.Sprintf("http://%s:%d/", at.IP, at.Ports[0].Port)
		pod, err := whoAnswers(http.DefaultClient, address)
		if err == nil && !strings.HasPrefix(pod, "deployment-2048-") {
			return fmt.Errorf("%s answers", pod)
		}
		return err
	})
	return address
}

// whoAnswers returns the pod that responds.
func whoAnswers(c *http.Client, address string) (pod string, err error) {
	answer, err := c.Get(address)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	pod, ok := strings.CutPrefix(strings.TrimSpace(string(body)), "hello from ")
	if err != nil || answer.StatusCode != http.StatusOK || !ok {
		return "", fmt.Errorf("%d %s %v", answer.StatusCode, body, err) //nolint:errorlint // it may be nil
	}
	return pod, nil
}
