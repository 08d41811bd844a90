package podspec

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/wire"
)

// probe translates a probe, nil for none. Unset numbers get the API's defaults.
func probe(c *corev1.Container, p *corev1.Probe) (*wire.Probe, error) {
	if p == nil {
		return nil, nil
	}
	a, err := action(c, p.Exec, p.HTTPGet, p.TCPSocket)
	if err != nil {
		return nil, err
	}
	if p.GRPC != nil {
		a = &wire.Action{GRPC: &wire.GRPCHealth{Port: int(p.GRPC.Port), Service: ptr.Deref(p.GRPC.Service, "")}}
	}
	if a == nil {
		return nil, errors.New("it has no action; give exec, httpGet, tcpSocket or grpc")
	}
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	out := &wire.Probe{
		Action: *a, InitialDelay: seconds(p.InitialDelaySeconds),
		Period: seconds(cmp.Or(p.PeriodSeconds, 10)), Timeout: seconds(cmp.Or(p.TimeoutSeconds, 1)),
		SuccessThreshold: int(max(p.SuccessThreshold, 1)), FailureThreshold: int(cmp.Or(p.FailureThreshold, 3)),
	}
	if grace := p.TerminationGracePeriodSeconds; grace != nil {
		out.GracePeriod = ptr.To(time.Duration(*grace) * time.Second)
	}
	return out, nil
}

// hook translates a lifecycle hook, nil for none.
func hook(c *corev1.Container, h *corev1.LifecycleHandler) (*wire.Action, error) {
	if h == nil {
		return nil, nil
	}
	if h.Sleep != nil {
		return &wire.Action{Sleep: time.Duration(h.Sleep.Seconds) * time.Second}, nil
	}
	return action(c, h.Exec, h.HTTPGet, h.TCPSocket)
}

func action(c *corev1.Container, exec *corev1.ExecAction, get *corev1.HTTPGetAction,
	tcp *corev1.TCPSocketAction,
) (*wire.Action, error) {
	switch {
	case exec != nil:
		return &wire.Action{Exec: exec.Command}, nil
	case get != nil:
		port, err := portOf(c, get.Port)
		if err != nil {
			return nil, err
		}
		out := &wire.HTTPGet{
			Scheme: strings.ToLower(string(cmp.Or(get.Scheme, corev1.URISchemeHTTP))), Host: get.Host,
			Port: port, Path: get.Path,
		}
		for _, h := range get.HTTPHeaders {
			out.Headers = append(out.Headers, wire.Header{Name: h.Name, Value: h.Value})
		}
		return &wire.Action{HTTP: out}, nil
	case tcp != nil:
		port, err := portOf(c, tcp.Port)
		if err != nil {
			return nil, err
		}
		return &wire.Action{TCP: &wire.TCPSocket{Host: tcp.Host, Port: port}}, nil
	}
	return nil, nil
}

// portOf returns the number of a port that may be given by name.
func portOf(c *corev1.Container, port intstr.IntOrString) (int, error) {
	n := port.IntValue()
	if port.Type == intstr.String && n == 0 {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				n = int(p.ContainerPort)
			}
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %q is none of the container's, nor a number from 1 to 65535", port.String())
	}
	return n, nil
}
