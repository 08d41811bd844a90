package guest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// warning is the message of a probe that succeeded with a warning.
type warning string

func (w warning) Error() string { return string(w) }

// badStatus is the status code of an answer that makes a probe fail. Hooks ignore it.
type badStatus int

func (s badStatus) Error() string {
	return fmt.Sprintf("HTTP probe failed with statuscode: %d", int(s))
}

// unperformed is the error of an action that could not be performed, which fails a hook but not a probe.
type unperformed struct{ error }

// act performs the action of a probe or hook. nil or a warning means success.
func (r *run) act(ctx context.Context, a wire.Action) error {
	switch {
	case a.Invalid != "":
		return unperformed{errors.New(a.Invalid)}
	case a.Exec != nil:
		return r.execute(ctx, a.Exec)
	case a.HTTP != nil:
		return httpGet(ctx, *a.HTTP, r.c.pod.address())
	case a.TCP != nil:
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp",
			net.JoinHostPort(cmp.Or(a.TCP.Host, r.c.pod.address()), strconv.Itoa(a.TCP.Port)))
		if err != nil {
			return err
		}
		return conn.Close()
	case a.GRPC != nil:
		return grpcHealth(ctx, net.JoinHostPort(r.c.pod.address(), strconv.Itoa(a.GRPC.Port)), a.GRPC.Service)
	}
	select {
	case <-time.After(a.Sleep):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// address returns the pod's address, which probes connect to, as a kubelet's do.
func (p *pod) address() string {
	address, _, _ := strings.Cut(p.spec.Network.Address, "/")
	return cmp.Or(address, "127.0.0.1")
}

func httpGet(ctx context.Context, g wire.HTTPGet, address string) error {
	u := url.URL{
		Scheme: strings.ToLower(cmp.Or(g.Scheme, "http")),
		Host:   net.JoinHostPort(cmp.Or(g.Host, address), strconv.Itoa(g.Port)),
	}
	ref, err := url.Parse(cmp.Or(g.Path, "/"))
	if err != nil {
		ref = &url.URL{Path: g.Path} // as with a kubelet (pkg/probe/http, Kubernetes 1.36)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.ResolveReference(ref).String(), nil)
	if err != nil {
		return unperformed{err}
	}
	setHeaders(req, g.Headers)
	// A kubelet verifies neither certificates nor host names.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := http.Client{Transport: transport, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		switch {
		case to.URL.Hostname() != u.Hostname():
			return http.ErrUseLastResponse // a redirect to another host counts as success
		case len(via) >= maxRedirects:
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProbeOutput))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode >= 400:
		return badStatus(resp.StatusCode)
	case resp.StatusCode >= 300:
		return warning("Probe terminated redirects, Response body: " + strings.ToValidUTF8(string(body), "\uFFFD"))
	}
	return nil
}

// setHeaders sets a request's headers, with a kubelet's defaults where there are none. An empty Accept is not sent.
func setHeaders(req *http.Request, headers []wire.Header) {
	for _, h := range headers {
		if strings.EqualFold(h.Name, "Host") {
			req.Host = h.Value
		} else {
			req.Header.Add(h.Name, h.Value)
		}
	}
	if _, set := req.Header["User-Agent"]; !set {
		req.Header.Set("User-Agent", "kube-probe/nodeless")
	}
	if _, set := req.Header["Accept"]; !set {
		req.Header.Set("Accept", "*/*")
	} else if req.Header.Get("Accept") == "" {
		req.Header.Del("Accept")
	}
}

// maxRedirects is the number of redirects that a probe follows, as in a kubelet.
const maxRedirects = 10

const servingStatus = 1 // grpc.health.v1.HealthCheckResponse.SERVING

// grpcHealth calls grpc.health.v1.Health/Check over plain HTTP/2. Both messages have only one field, so the guest
// needs no gRPC library.
func grpcHealth(ctx context.Context, address, service string) error {
	body := make([]byte, 5, 7+len(service)) // not compressed; the length follows
	if service != "" {
		body = binary.AppendUvarint(append(body, 1<<3|2), uint64(len(service)))
		body = append(body, service...)
	}
	binary.BigEndian.PutUint32(body[1:], uint32(len(body)-5))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/grpc.health.v1.Health/Check",
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxProbeOutput))
	if err != nil {
		return err
	}
	status := cmp.Or(resp.Trailer.Get("Grpc-Status"), resp.Header.Get("Grpc-Status"))
	switch {
	case status == "12":
		return errors.New("this server does not implement the grpc health protocol (grpc.health.v1.Health)")
	case status != "0":
		return fmt.Errorf("health rpc probe failed with status %s: %s", status,
			cmp.Or(resp.Trailer.Get("Grpc-Message"), resp.Header.Get("Grpc-Message")))
	case len(answer) < 7 || answer[5] != 1<<3 || answer[6] != servingStatus:
		return errors.New("service unhealthy")
	}
	return nil
}
