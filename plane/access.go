package plane

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
)

// RESTConfig is a fresh client configuration with all rights (group system:masters), limited to Options.ClientQPS.
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

// Kubeconfig is the path of a kubeconfig file with all rights; it is rewritten at each start.
func (p *Plane) Kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// APIServerURL is the address of the API server, such as https://127.0.0.1:16443.
func (p *Plane) APIServerURL() string { return "https://" + p.address() }

// CABundle is the PEM certificate of the authority that signed the API server's certificate.
func (p *Plane) CABundle() []byte { return append([]byte(nil), p.pki.ca.certPEM...) }

// ServiceCIDR is the range of Service addresses.
func (p *Plane) ServiceCIDR() string { return p.state.ServiceCIDR }

func (p *Plane) address() string { return fmt.Sprintf("127.0.0.1:%d", p.state.Port) }
