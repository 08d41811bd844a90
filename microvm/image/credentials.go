package image

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"
)

// Keyring finds the credentials for an image, best match first. It is the kubelet's own.
type Keyring = credentialprovider.DockerKeyring

// NewKeyring collects the credentials in a pod's imagePullSecrets and, after them, those in a docker config.json of the
// host (nil for none). As in a kubelet, host, port, path and wildcards decide which of them match an image, and several
// for one registry are tried in turn.
func NewKeyring(pullSecrets []corev1.Secret, dockerConfig []byte) (Keyring, error) {
	host := &credentialprovider.BasicDockerKeyring{}
	if len(dockerConfig) > 0 {
		var config credentialprovider.DockerConfigJSON
		if err := json.Unmarshal(dockerConfig, &config); err != nil {
			return nil, fmt.Errorf("read the host's docker configuration: %w; it is a config.json as `docker login` writes it",
				err)
		}
		host.Add(nil, config.Auths)
	}
	keyring, err := secrets.MakeDockerKeyring(pullSecrets, host)
	if err != nil {
		return nil, fmt.Errorf("read imagePullSecrets: %w; create them with `kubectl create secret docker-registry`", err)
	}
	return keyring, nil
}

// credentials returns those for a repository, none if the keyring is nil.
func credentials(keyring Keyring, repo name.Repository) []authn.AuthConfig {
	if keyring == nil {
		return nil
	}
	var fit []authn.AuthConfig
	matches, _ := keyring.Lookup(display(repo))
	for _, c := range matches {
		fit = append(fit, authn.AuthConfig{
			Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken,
			RegistryToken: c.RegistryToken,
		})
	}
	return fit
}
