package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// kubeletPort is the port of kubelets.
const kubeletPort = 10250

// serveKubelet serves only the port-forwarding part of a kubelet's API: the performance suite takes profiles through
// it.
func serveKubelet() error {
	certificate, key, err := cert.GenerateSelfSignedCertKey(systemNodeName, []net.IP{controllerIP.AsSlice()}, nil)
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp",
		net.JoinHostPort(controllerIP.String(), strconv.Itoa(kubeletPort)))
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	s := &http.Server{
		Handler: http.HandlerFunc(forward), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},
		},
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	return nil
}

// forward answers /portForward/NAMESPACE/POD.
func forward(w http.ResponseWriter, req *http.Request) {
	f := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if len(f) < 3 || f[0] != "portForward" {
		http.NotFound(w, req)
		return
	}
	o, err := portforward.NewV4Options(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, req, toController{}, f[2], "", o, time.Hour, time.Minute,
		[]string{portforward.ProtocolV1Name})
}

// toController connects every forwarded port to the controller.
type toController struct{}

// PortForward copies in both directions until one side ends.
func (toController) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(controllerIP.String(), strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, stream)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(stream, conn)
		ended <- err
	}()
	return <-ended
}
