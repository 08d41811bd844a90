package podspec

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/wire"
)

// probe translates a probe, nil for none. Unset numbers get the API's defaults. As in a kubelet, $(NAME) in a command
// is the value that the pod gives that variable, empty if it is from elsewhere (ExpandContainerCommandOnlyStatic in
// pkg/kubelet/container/helpers.go, Kubernetes 1.36). Commands of hooks have no variables.
func probe(c *corev1.Container, p *corev1.Probe) *wire.Probe {
	if p == nil {
		return nil
	}
	a := action(c, p.Exec, p.HTTPGet, p.TCPSocket)
	if p.Exec != nil {
		values := map[string]string{}
		for i := range c.Env {
			values[c.Env[i].Name] = c.Env[i].Value
		}
		a.Exec = nil
		for _, word := range p.Exec.Command {
			a.Exec = append(a.Exec, expansion.Expand(word, expansion.MappingFuncFor(values)))
		}
	}
	if p.GRPC != nil {
		a = wire.Action{GRPC: &wire.GRPCHealth{Port: int(p.GRPC.Port), Service: ptr.Deref(p.GRPC.Service, "")}}
	}
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	out := &wire.Probe{
		Action: a, InitialDelay: seconds(p.InitialDelaySeconds),
		Period: seconds(cmp.Or(p.PeriodSeconds, 10)), Timeout: seconds(cmp.Or(p.TimeoutSeconds, 1)),
		SuccessThreshold: int(max(p.SuccessThreshold, 1)), FailureThreshold: int(cmp.Or(p.FailureThreshold, 3)),
	}
	if grace := p.TerminationGracePeriodSeconds; grace != nil {
		out.GracePeriod = ptr.To(time.Duration(*grace) * time.Second)
	}
	return out
}

// hook translates a lifecycle hook, nil for none.
func hook(c *corev1.Container, h *corev1.LifecycleHandler) *wire.Action {
	if h == nil {
		return nil
	}
	if h.Sleep != nil {
		return &wire.Action{Sleep: time.Duration(h.Sleep.Seconds) * time.Second}
	}
	return ptr.To(action(c, h.Exec, h.HTTPGet, h.TCPSocket))
}

func action(c *corev1.Container, exec *corev1.ExecAction, get *corev1.HTTPGetAction,
	tcp *corev1.TCPSocketAction,
) wire.Action {
	switch {
	case exec != nil:
		return wire.Action{Exec: exec.Command}
	case get != nil:
		port, invalid := portOf(c, get.Port)
		out := &wire.HTTPGet{
			Scheme: strings.ToLower(string(cmp.Or(get.Scheme, corev1.URISchemeHTTP))), Host: get.Host,
			Port: port, Path: get.Path,
		}
		for _, h := range get.HTTPHeaders {
			out.Headers = append(out.Headers, wire.Header{Name: h.Name, Value: h.Value})
		}
		return wire.Action{HTTP: out, Invalid: invalid}
	case tcp != nil:
		port, invalid := portOf(c, tcp.Port)
		return wire.Action{TCP: &wire.TCPSocket{Host: tcp.Host, Port: port}, Invalid: invalid}
	}
	return wire.Action{Invalid: "it has no action"}
}

// portOf returns the number of a port that may be given by name. invalid is why it has none, which matters only when a
// probe or hook needs it, as in a kubelet.
func portOf(c *corev1.Container, port intstr.IntOrString) (n int, invalid string) {
	n = port.IntValue()
	if port.Type == intstr.String && n == 0 {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				n = int(p.ContainerPort)
			}
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Sprintf("port %q is none of the container's, nor a number from 1 to 65535", port.String())
	}
	return n, ""
}
