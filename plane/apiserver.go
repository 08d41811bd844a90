package plane

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/rest"
	apiapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// serveAPI runs kube-apiserver as apiapp.Run does, with two settings that have no flag: additional authentication,
// and the dialer for kubelets.
func (p *Plane) serveAPI(ctx context.Context, o apioptions.CompletedOptions) error {
	config, err := apiapp.NewConfig(o)
	if err != nil {
		return err
	}
	if p.o.Tokens != nil {
		// Requests use the aggregator's chain; TokenReviews use those of the others.
		for _, c := range []*genericapiserver.Config{
			config.KubeAPIs.ControlPlane.Generic,
			&config.ApiExtensions.GenericConfig.Config, &config.Aggregator.GenericConfig.Config,
		} {
			tokens := group.NewAuthenticatedGroupAdder(bearertoken.New(p.o.Tokens))
			c.Authentication.Authenticator = union.New(tokens, c.Authentication.Authenticator)
		}
	}
	if p.o.DialKubelet != nil {
		kubelets := &config.KubeAPIs.Extra.KubeletClientConfig
		kubelets.Lookup = func(egressselector.NetworkContext) (net.DialFunc, error) {
			return p.o.DialKubelet, nil
		}
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := apiapp.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// RESTConfig returns a new client configuration with full access (group system:masters), limited to
// Options.ClientQPS.
func (p *Plane) RESTConfig() *rest.Config {
	return &rest.Config{
		Host:  p.APIServerURL(),
		QPS:   float32(p.o.ClientQPS),
		Burst: 2 * p.o.ClientQPS,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: p.pki.ca.certPEM, CertData: p.pki.admin.certPEM, KeyData: p.pki.admin.keyPEM,
		},
	}
}

// Kubeconfig returns the path of a kubeconfig file with full access. Each start rewrites it.
func (p *Plane) Kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// APIServerURL returns the address of the API server, such as https://127.0.0.1:16443.
func (p *Plane) APIServerURL() string { return "https://" + p.address() }

// CABundle returns the PEM certificate of the CA that signed the API server's certificate.
func (p *Plane) CABundle() []byte { return append([]byte(nil), p.pki.ca.certPEM...) }

// ServiceCIDR returns the range of Service addresses.
func (p *Plane) ServiceCIDR() string { return p.state.ServiceCIDR }

func (p *Plane) address() string { return fmt.Sprintf("127.0.0.1:%d", p.state.Port) }

// auditPolicy logs writes with their content and reads without. It logs no leases, and events, secrets and tokens
// without their content.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: Metadata
  verbs: [get, list, watch]
- level: Metadata
  resources:
  - {group: "", resources: [secrets, serviceaccounts/token]}
  - {group: authentication.k8s.io}
- level: Metadata
  resources:
  - {group: "", resources: [events]}
  - {group: events.k8s.io, resources: [events]}
- level: Request
`

// auditFlags writes the audit policy and returns kube-apiserver's flags for it; none without an audit log.
func (p *Plane) auditFlags() ([]string, error) {
	if p.o.AuditLog == "" {
		return nil, nil
	}
	policy := filepath.Join(p.dir, "audit-policy.yaml")
	if err := writeFile(policy, []byte(auditPolicy)); err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	return []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + p.o.AuditLog,
		"--audit-log-maxsize=512", "--audit-log-maxbackup=1", // megabytes, files
	}, nil
}
