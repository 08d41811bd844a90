package plane

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes the user's kubeconfig and those of the components, with the present port and certificates.
func (p *Plane) writeKubeconfigs() error {
	for path, who := range map[string]*pair{
		p.Kubeconfig():                           p.pki.admin,
		p.componentKubeconfig(controllerManager): p.pki.controllerManager,
		p.componentKubeconfig(scheduler):         p.pki.scheduler,
	} {
		raw, err := clientcmd.Write(*p.kubeconfig(who))
		if err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
		if err := writeFile(path, raw); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	return nil
}

func (p *Plane) componentKubeconfig(name string) string {
	return filepath.Join(p.dir, "pki", name+".kubeconfig")
}

func (p *Plane) kubeconfig(who *pair) *clientcmdapi.Config {
	const name = "nodeless"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: p.APIServerURL(), CertificateAuthorityData: p.pki.ca.certPEM}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: who.certPEM, ClientKeyData: who.keyPEM}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return c
}
