package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

// Options configure a Server; all are required.
type Options struct {
	Backend Backend
	// Client asks the API server about tokens (TokenReview) and rights (SubjectAccessReview).
	Client kubernetes.Interface
	// ClientCA is the PEM bundle of the authority that signs client certificates, including the API server's own.
	ClientCA []byte
	// Certificates provides the serving certificate of each node.
	Certificates Certificates
}

// Certificates provides the certificate with which a node serves at an address; see Signer.
type Certificates interface {
	Certificate(ctx context.Context, node string, at netip.Addr) (*tls.Certificate, error)
}

// Server is the kubelet API of all nodes of a Backend.
type Server struct {
	backend Backend
	guard   *guard
	certs   Certificates
	mux     *http.ServeMux
}

// New returns a Server.
func New(o Options) (*Server, error) {
	g, err := newGuard(o.Client, o.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("kubelet API: %w", err)
	}
	s := &Server{backend: o.Backend, guard: g, certs: o.Certificates, mux: http.NewServeMux()}
	s.ofPod("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	for _, uid := range []string{"", "/{uid}"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			s.ofPod(method+" /exec/{namespace}/{pod}"+uid+"/{container}", s.unlessRefused("exec", s.exec))
			s.ofPod(method+" /attach/{namespace}/{pod}"+uid+"/{container}", s.unlessRefused("attach", s.attach))
			s.ofPod(method+" /portForward/{namespace}/{pod}"+uid, s.unlessRefused("port-forward", s.portForward))
		}
	}
	s.ofNode("/stats/summary", s.stats)
	s.ofNode("/metrics/resource", s.metrics)
	s.ofNode("/pods", s.pods(func(*corev1.Pod) bool { return true }))
	s.ofNode("/runningpods/", s.pods(func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }))
	s.ofNode("/healthz", s.healthz)
	return s, nil
}

// bodyWithin is how long the body of a request may take to arrive. Streams take over their connections and have no
// body.
const bodyWithin = 30 * time.Second

// Serve answers connections until the context ends, then closes them; streams end with their processes. It may run on
// several listeners at once. The local address of a connection determines its node.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.guard.ca.CurrentCABundleContent())
	web := httpguard.NewServer(bodyWithin, s.mux)
	web.ReadHeaderTimeout, web.IdleTimeout = 32*time.Second, 90*time.Second // the kubelet's
	web.BaseContext = func(net.Listener) context.Context { return ctx }
	web.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes of scanners; requests get errors as answers
	web.TLSConfig = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // streams take over the connection, which HTTP/2 does not allow
		ClientAuth:     tls.RequestClientCert,
		ClientCAs:      pool, // helps the client choose; the guard verifies
		GetCertificate: s.certificate,
	}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	if err := web.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("kubelet API at %s: %w", l.Addr(), err)
	}
	return nil
}

func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	at, node, ok := s.nodeAt(hello.Conn.LocalAddr())
	if !ok {
		return nil, fmt.Errorf("no node at %s", at)
	}
	return s.certs.Certificate(hello.Context(), node, at.Addr())
}

func (s *Server) nodeAt(local net.Addr) (netip.AddrPort, string, bool) {
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, "", false
	}
	at := netip.AddrPortFrom(tcp.AddrPort().Addr().Unmap(), tcp.AddrPort().Port())
	node, ok := s.backend.NodeAt(at)
	return at, node, ok
}

// nodeHandler serves a path about a node.
type nodeHandler func(w http.ResponseWriter, r *http.Request, node string)

// ofNode serves a path about the node at which the request arrives.
func (s *Server) ofNode(path string, serve nodeHandler) {
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		at, node, ok := s.nodeAt(local)
		if !ok {
			http.Error(w, fmt.Sprintf("no node at %s", at), http.StatusNotFound)
			return
		}
		if s.guard.admit(w, r, node) {
			serve(w, r, node)
		}
	})
}

// ofPod serves a path about a pod to callers with rights on its node. Only an authorized caller learns that a pod
// does not exist.
func (s *Server) ofPod(pattern string, serve podHandler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		namespace, name := r.PathValue("namespace"), r.PathValue("pod")
		uid, container := r.PathValue("uid"), r.PathValue("container")
		pod, ok := s.backend.Pod(namespace, name)
		node := ""
		if ok {
			node = pod.Spec.NodeName
		}
		if !s.guard.admit(w, r, node) {
			return
		}
		switch {
		case !ok || uid != "" && uid != string(pod.UID):
			http.Error(w, fmt.Sprintf("pod %q does not exist", namespace+"/"+name), http.StatusNotFound)
		case container != "" && !hasContainer(pod, container):
			http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, namespace+"/"+name), http.StatusNotFound)
		default:
			serve(w, r, pod)
		}
	})
}

func hasContainer(pod *corev1.Pod, name string) bool {
	for c := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		if c.Name == name {
			return true
		}
	}
	return false
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request, _ string) {
	_, _ = io.WriteString(w, "ok")
}

func (s *Server) stats(w http.ResponseWriter, r *http.Request, node string) {
	summary, err := s.backend.Stats(r.Context(), node)
	if err != nil {
		http.Error(w, fmt.Sprintf("measure node %s: %v", node, err), http.StatusInternalServerError)
		return
	}
	writeJSON(w, summary)
}

// pods serves a list of the wanted pods.
func (s *Server) pods(want func(*corev1.Pod) bool) nodeHandler {
	return func(w http.ResponseWriter, _ *http.Request, node string) {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		for _, p := range s.backend.Pods(node) {
			if want(p) {
				list.Items = append(list.Items, *p)
			}
		}
		writeJSON(w, list)
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
