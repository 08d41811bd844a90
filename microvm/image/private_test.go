package image

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPrivateImages(t *testing.T) {
	s := newServer(t)
	s.password = "right"
	s.push(t, "team/app:1", program(t, "secret"))
	dir := t.TempDir()
	p := openAt(t, dir, Options{Transport: s.transport})
	app := s.host + "/team/app:1"
	ring := func(passwords ...string) Keyring {
		var all []corev1.Secret
		for _, pw := range passwords {
			all = append(all, pullSecret(s.host, "dev", pw))
		}
		k, err := NewKeyring(all, nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}

	_, err := p.Pull(t.Context(), Request{Reference: app})
	says(t, err, app, "wants credentials", "imagePullSecrets")
	_, err = p.Pull(t.Context(), Request{Reference: app, Keyring: ring("wrong")})
	says(t, err, app, "refuses the credentials", "imagePullSecrets")
	if strings.Contains(err.Error(), "wrong") {
		t.Errorf("the password is in the message: %v", err)
	}
	pulled(t, p, Request{Reference: app, Keyring: ring("wrong", "right")}).Release()
	pulled(t, p, Request{Reference: app, Keyring: ring("right")}).Release()

	// An image that was pulled with another pod's secret is not available without credentials.
	if _, err = p.Pull(t.Context(), Request{Reference: app}); err == nil {
		t.Error("a pod without credentials got a private image from the cache")
	}
	if _, err = p.Pull(t.Context(), Request{Reference: app, Policy: Never, Keyring: ring("wrong")}); !errors.Is(err,
		ErrNeverPull) {
		t.Errorf("a pod with other credentials: %v", err)
	}
	host, err := NewKeyring(nil, []byte(`{"auths":{"`+s.host+`/team":{"username":"dev","password":"right"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	pulled(t, p, Request{Reference: app, Keyring: host}).Release()

	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if out := contents(t, dir); strings.Contains(out, "right") {
		t.Error("a password is on the disk")
	}
	p = openAt(t, dir, Options{Transport: s.transport})
	s.forget()
	if img := pulled(t, p, Request{Reference: app, Keyring: ring("right")}); img.Pulled ||
		s.asked("HEAD", "/manifests/") != 1 {
		t.Errorf("after a restart: %+v, asked %v; want the credentials shown once more and nothing downloaded", img,
			s.requests)
	}
}

func TestInvalidPullSecrets(t *testing.T) {
	_, err := NewKeyring([]corev1.Secret{{
		Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{")},
	}}, nil)
	says(t, err, "imagePullSecrets", "kubectl create secret docker-registry")
	_, err = NewKeyring(nil, []byte("{"))
	says(t, err, "docker configuration", "docker login")
}
