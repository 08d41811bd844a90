// Package admission implements the webhook that assigns new pods to microVMs according to FargateProfiles (package
// microvm/fargate has the rules) and warns users of kubectl about the objects they create. It also validates
// FargateProfiles, NodePools and the ConfigMap aws-logging.
//
// The webhook's certificates are stored in a Secret and renewed; its configurations follow the profiles.
package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/coalesce"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

// Options configure a Server.
type Options struct {
	Client    client.Client // required; reads from the API server itself
	At        Place         // required: where API servers reach the Listener
	Listener  net.Listener  // required; the Server closes it
	Namespace string        // of the Secret with the certificates; required
	// Profiles returns all profiles, which must not be modified. It is called for each pod.
	Profiles func() []*v1alpha1.FargateProfile
	// Able returns the abilities of the available microVMs.
	Able  func() fargate.Abilities
	Clock clock.Clock
	Log   *slog.Logger
}

// Server is the webhook.
type Server struct {
	o       Options
	serving atomic.Pointer[tls.Certificate]
	changed chan struct{} // a profile was created, changed or deleted
	// fresh reads the profiles from the API server for a pod that no cached profile selects: the same kubectl apply may
	// have just created its profile, and without it the pod would stay on a shared node.
	fresh *coalesce.Reader[[]*v1alpha1.FargateProfile]

	registrar Registrar // owned by Run
}

// New returns a Server that does nothing before Run.
func New(o Options) *Server {
	return &Server{
		o: o, registrar: Registrar{Client: o.Client, Clock: o.Clock}, changed: make(chan struct{}, 1),
		fresh: coalesce.New(func(ctx context.Context) ([]*v1alpha1.FargateProfile, error) {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			var list v1alpha1.FargateProfileList
			if err := o.Client.List(ctx, &list); err != nil {
				return nil, fmt.Errorf("list FargateProfiles: %w", err)
			}
			out := make([]*v1alpha1.FargateProfile, len(list.Items))
			for i := range list.Items {
				out[i] = &list.Items[i]
			}
			return out, nil
		}),
	}
}

// ProfilesChanged makes Run update the configurations soon.
func (s *Server) ProfilesChanged() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

const (
	// interval is how often certificates and configurations are checked without a change; pause is the wait after a
	// failure.
	interval = time.Minute
	pause    = time.Second
	// readTimeout limits reading the profiles; it is less than the API server waits for the webhook.
	readTimeout = 3 * time.Second
	// bodyWithin is how long the body of a request may take to arrive.
	bodyWithin = 30 * time.Second
)

// Run serves until ctx is done. ready is called when the webhook is registered with the API server; it may be nil.
func (s *Server) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := httpguard.NewServer(bodyWithin, s.mux())
	server.ErrorLog = slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug)
	server.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := s.serving.Load(); c != nil {
				return c, nil
			}
			return nil, errors.New("the webhook has no certificate yet")
		},
	}
	go func() {
		if err := server.ServeTLS(s.o.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("webhook at %s: %w", s.o.Listener.Addr(), err))
		}
	}()
	defer func() { _ = server.Close() }()
	for {
		wait := interval
		confirmed, err := s.publish(ctx)
		if !confirmed {
			wait = ConfirmAfter
		}
		switch {
		case err == nil && ready != nil:
			ready()
			ready = nil
		case err != nil && ctx.Err() == nil:
			wait = pause
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // another replica was faster
				s.o.Log.Warn("cannot update the webhook; trying again", "error", err)
			}
		}
		if clock.SleepOr(ctx, s.o.Clock, wait, s.changed) != nil {
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	}
}

// publish updates certificates and configurations, and reports whether API servers are certain to use them.
func (s *Server) publish(ctx context.Context) (bool, error) {
	certs, err := s.settle(ctx)
	if err != nil {
		return false, err
	}
	serving, err := certs.served(s.o.Clock.Now()).tls()
	if err != nil {
		return false, err
	}
	s.serving.Store(serving)
	return s.configure(ctx, certs.bundle())
}

// Logging returns whether the logs of a profile's new pods are routed. Objects that cannot be read count as missing,
// as on Fargate.
func (s *Server) Logging(ctx context.Context, spec *v1alpha1.FargateProfileSpec) fargate.LogState {
	namespace, config := &corev1.Namespace{}, &corev1.ConfigMap{}
	if err := s.o.Client.Get(ctx, client.ObjectKey{Name: fargate.LoggingNamespace}, namespace); err != nil {
		namespace = nil
	} else if err := s.o.Client.Get(ctx, client.ObjectKey{
		Namespace: fargate.LoggingNamespace,
		Name:      fargate.LoggingConfigMap,
	}, config); err != nil {
		config = nil
	}
	state, _ := pipeline.State(spec, namespace, config, s.o.Able())
	return state
}
