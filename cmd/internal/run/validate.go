package run

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/controller/admission"
)

// validate returns what is wrong with the settings, naming the flag.
func (s *settings) validate() error {
	switch {
	case s.clusterName == "":
		return fmt.Errorf("--cluster-name is missing: the name with which instances are tagged, such as --cluster-name prod")
	case s.vmMemoryOverhead < 0 || s.vmMemoryOverhead >= 1 || math.IsNaN(s.vmMemoryOverhead):
		return fmt.Errorf("--vm-memory-overhead-percent %v: give a part of 1, such as 0.075", s.vmMemoryOverhead)
	case s.reservedENIs < 0:
		return fmt.Errorf("--reserved-enis %d: give a number from 0", s.reservedENIs)
	case s.kubeQPS <= 0 || s.kubeBurst <= 0:
		return fmt.Errorf("--kube-client-qps %d, --kube-client-burst %d: give numbers above 0", s.kubeQPS, s.kubeBurst)
	case s.logFormat != "text" && s.logFormat != "json":
		return fmt.Errorf("--log-format %q: use text or json", s.logFormat)
	}
	if err := s.validateDurations(); err != nil {
		return err
	}
	if err := s.validatePorts(); err != nil {
		return err
	}
	if _, err := s.caBundle(); err != nil {
		return err
	}
	if _, err := s.memory(); err != nil {
		return err
	}
	_, err := s.level()
	return err
}

func (s *settings) validateDurations() error {
	for _, d := range []struct {
		flag        string
		value, from time.Duration
	}{
		{"ami-refresh-interval", s.amiRefresh, time.Minute},
		{"subnet-refresh-interval", s.subnetRefresh, time.Minute},
		{"batch-idle-duration", s.batchIdle, 0},
		{"batch-max-duration", s.batchMax, 0},
	} {
		if d.value < d.from {
			return fmt.Errorf("--%s %s: give at least %s", d.flag, d.value, d.from)
		}
	}
	return nil
}

func (s *settings) validatePorts() error {
	if s.fargateWebhook != "" {
		if _, err := admission.ParsePlace(s.fargateWebhook); err != nil {
			return fmt.Errorf("--fargate-webhook: %w", err)
		}
		if s.fargatePort <= 0 || s.fargatePort > math.MaxUint16 {
			return fmt.Errorf("--fargate-webhook-port %d: give a port from 1 to 65535", s.fargatePort)
		}
	}
	for flag, port := range map[string]int{"metrics-port": s.metricsPort, "health-probe-port": s.healthPort} {
		if port < 0 || port > math.MaxUint16 {
			return fmt.Errorf("--%s %d: give a port from 1 to 65535, or 0 for none", flag, port)
		}
	}
	return nil
}

// caBundle returns the CA bundle as PEM; nil if none is given.
func (s *settings) caBundle() ([]byte, error) {
	if s.clusterCA == "" {
		return nil, nil
	}
	pem, err := base64.StdEncoding.DecodeString(s.clusterCA)
	if err != nil || !strings.Contains(string(pem), "BEGIN CERTIFICATE") {
		return nil, fmt.Errorf("--cluster-ca-bundle: give PEM certificates in base64, as `aws eks describe-cluster` " +
			"prints them")
	}
	return pem, nil
}

// memory returns the memory limit in bytes, 0 if unknown.
func (s *settings) memory() (int64, error) {
	if s.memoryLimit == "-1" || s.memoryLimit == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(s.memoryLimit)
	if err != nil || q.Value() <= 0 {
		return 0, fmt.Errorf("--memory-limit %q: give bytes, such as 2147483648 or 2Gi, or -1", s.memoryLimit)
	}
	return q.Value(), nil
}

func (s *settings) level() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return level, fmt.Errorf("--log-level %q: use debug, info, warn or error", s.logLevel)
	}
	return level, nil
}

// parallel returns for how many CPUs work is done in parallel, at least one.
func (s *settings) parallel() int { return max((s.cpuRequests+999)/1000, 1) }

// inPod reports whether this process runs in a cluster.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// listen returns the address at which a port is served; "" = nowhere.
func listen(f *pflag.FlagSet, flag string, port int, address string) string {
	switch {
	case address != "":
		return address
	case port == 0:
		return ""
	case inPod() || f.Changed(flag):
		return net.JoinHostPort("", strconv.Itoa(port))
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// namespaceFile holds a pod's own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the controller's namespace: outside a cluster that of its lease, where it has its rights.
func (s *settings) ownNamespace() string {
	own, _ := os.ReadFile(namespaceFile)
	return cmp.Or(s.system, strings.TrimSpace(string(own)), s.leaderNamespace, "kube-system")
}
