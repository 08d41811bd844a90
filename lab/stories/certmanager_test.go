package stories

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cert-manager, installed with its own chart, runs in microVMs. The API server calls its webhook there, which rejects
// a Certificate without names and records who requested a certificate. A valid Certificate becomes a Secret.
func TestCertManagerIssuesFromMicroVMs(t *testing.T) {
	needServices(t)
	programs := certManager.build(t)
	dir, version := certManager.source(t)
	args := []string{
		"template", "cert-manager", filepath.Join(dir, "deploy", "charts", "cert-manager"), "--namespace", "cert-manager",
		"--set", "crds.enabled=true,startupapicheck.enabled=false,cainjector.replicaCount=0",
	}
	for _, part := range []string{"", "webhook.", "cainjector."} {
		args = append(args, "--set", part+"image.tag="+version+","+part+"resources.requests.memory=256Mi")
	}
	chart := helm(t, args...)
	c := microVMs(t)
	for _, part := range []string{"controller", "webhook", "cainjector"} {
		c.buildImage(certManager, programs, "quay.io/jetstack/cert-manager-"+part+":"+version, "--entrypoint", part,
			"--user", "65532")
	}
	c.apply(`
apiVersion: nodeless.sh/v1alpha1
kind: FargateProfile
metadata: {name: cert-manager}
spec:
  sizing: Exact
  selectors: [{namespace: cert-manager}]
`)
	c.kubectl("create", "namespace", "cert-manager")
	if out, err := c.runIn(chart, "kubectl", "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	// cainjector is notified of the webhook's Secret by one cache and reads it from another, so it may not find the
	// Secret and is not called again (pkg/controller/cainjector of cert-manager 1.21.2). Therefore it starts once the
	// Secret exists.
	c.kubectl("wait", "--for=create", "secret/cert-manager-webhook-ca", "-n", "cert-manager", "--timeout=240s")
	c.kubectl("scale", "deployment/cert-manager-cainjector", "-n", "cert-manager", "--replicas=1")
	for _, deployment := range []string{"cert-manager-webhook", "cert-manager-cainjector", "cert-manager"} {
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(c.run("kubectl", "logs", "-n", "cert-manager", "deployment/"+deployment, "--tail=30"))
			}
		})
		c.kubectl("rollout", "status", "-n", "cert-manager", "deployment", deployment, "--timeout=240s")
	}

	c.eventually(patience, func() error { // until cainjector has given the API server the CA bundle
		out, err := c.runIn(selfSigned, "kubectl", "apply", "-f", "-")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	empty := strings.ReplaceAll(selfSigned, "  dnsNames: [web.example]\n", "")
	if out, err := c.runIn(empty, "kubectl", "apply", "-f", "-"); err == nil ||
		!strings.Contains(out, `admission webhook "webhook.cert-manager.io" denied the request`) {
		t.Errorf("a Certificate that names nothing: %v\n%s", err, out)
	}
	c.kubectl("wait", "--for=condition=Ready", "certificate/web", "--timeout=240s")
	var secret corev1.Secret
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "web"}, &secret); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Leaf.VerifyHostname("web.example"); err != nil {
		t.Error(err)
	}
	if got := c.kubectl("get", "certificaterequests", "-o", "jsonpath={.items[*].spec.username}"); got !=
		"system:serviceaccount:cert-manager:cert-manager" {
		t.Errorf("the webhook notes %q as who has requested the certificate", got)
	}
}

const selfSigned = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web, namespace: default}
spec:
  secretName: web
  dnsNames: [web.example]
  issuerRef: {name: self}
`
