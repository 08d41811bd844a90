// Package admission is the webhook through which pods become pods of a FargateProfile, and through which people learn
// at once, as warnings of kubectl, what will become of what they create. It also judges FargateProfiles, NodePools
// and the ConfigMap aws-logging.
//
// Which pods: microvm/fargate. The webhook's certificates live in a Secret and are renewed; its configurations follow
// the profiles (see configurations).
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
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

// Options are what a Server needs.
type Options struct {
	Client    client.Client // required; reads from the API server itself
	At        Place         // required: where API servers reach the Listener
	Listener  net.Listener  // required; the Server closes it
	Namespace string        // of the Secret with the certificates; required
	// Profiles are all profiles there are, shared and not to be modified. It is called for each pod.
	Profiles func() []*v1alpha1.FargateProfile
	// Able are the abilities of the microVMs that can be had.
	Able  func() fargate.Abilities
	Clock clock.Clock
	Log   *slog.Logger
}

// Server is the webhook.
type Server struct {
	o       Options
	serving atomic.Pointer[tls.Certificate]
	changed chan struct{} // a profile came, went or was changed
	fresh   fresh
	wrote   time.Time // when a configuration was changed; Run's
}

// New is a Server that does nothing before Run.
func New(o Options) *Server {
	return &Server{
		o: o, changed: make(chan struct{}, 1),
		fresh: fresh{list: func(ctx context.Context) ([]*v1alpha1.FargateProfile, error) {
			var list v1alpha1.FargateProfileList
			if err := o.Client.List(ctx, &list); err != nil {
				return nil, fmt.Errorf("list FargateProfiles: %w", err)
			}
			out := make([]*v1alpha1.FargateProfile, len(list.Items))
			for i := range list.Items {
				out[i] = &list.Items[i]
			}
			return out, nil
		}},
	}
}

// ProfilesChanged has the configurations looked at soon.
func (s *Server) ProfilesChanged() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// How often certificates and configurations are looked at if nothing happens, after a failure, and when a
// configuration was written that is to be said again (see put); and how long the profiles are waited for that a pod
// may be too early for: less than the API server waits for the webhook (configurations).
const (
	lookEvery  = time.Minute
	retry      = time.Second
	sayAgain   = 2 * time.Second
	readWithin = 3 * time.Second
)

// Run serves until ctx is done. Ready is called when the API server was told where the webhook is; may be nil.
func (s *Server) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				if c := s.serving.Load(); c != nil {
					return c, nil
				}
				return nil, errors.New("the webhook has no certificate yet")
			},
		},
	}
	go func() {
		if err := server.ServeTLS(s.o.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("webhook at %s: %w", s.o.Listener.Addr(), err))
		}
	}()
	defer func() { _ = server.Close() }()
	for {
		wait := lookEvery
		said, err := s.publish(ctx)
		if !said {
			wait = sayAgain
		}
		switch {
		case err == nil && ready != nil:
			ready()
			ready = nil
		case err != nil && ctx.Err() == nil:
			wait = retry
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // another replica was faster
				s.o.Log.Warn("the webhook is not up to date; it is tried again", "error", err)
			}
		}
		due := make(chan struct{})
		timer := s.o.Clock.AfterFunc(wait, func() { close(due) })
		select {
		case <-ctx.Done():
			timer.Stop()
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		case <-s.changed:
			timer.Stop()
		case <-due:
		}
	}
}

// publish brings certificates and configurations to what they should be, and reports whether API servers surely know.
func (s *Server) publish(ctx context.Context) (bool, error) {
	certs, err := s.settle(ctx)
	if err != nil {
		return false, err
	}
	serving, err := certs.current.tls()
	if err != nil {
		return false, err
	}
	s.serving.Store(serving)
	return s.configure(ctx, certs.bundle())
}

// Logging says whether the logs of a profile's new pod are routed. What cannot be read counts as not there, as on
// Fargate.
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
