package run

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
)

var bundle = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n"))

// parsed returns the settings of a command line, and the controller's options.
func parsed(args ...string) (*settings, controller.Options, error) {
	var s settings
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.add(f)
	if err := f.Parse(append([]string{"--cluster-name", "prod"}, args...)); err != nil {
		return nil, controller.Options{}, err
	}
	if err := s.validate(); err != nil {
		return nil, controller.Options{}, err
	}
	o, err := s.controllerOptions(f)
	return &s, o, err
}

// Every setting of Karpenter exists, accepts valid values, and rejects others with an error that names it.
func TestKarpentersSettings(t *testing.T) {
	number, truth := []string{"-1", "many"}, []string{"perhaps"}
	for flag, c := range map[string]struct{ good, bad []string }{
		"cluster-name":                        {[]string{"prod"}, nil},
		"cluster-endpoint":                    {[]string{"https://api.example.com"}, nil},
		"cluster-ca-bundle":                   {[]string{bundle}, []string{"no base64", "bm90aGluZw=="}},
		"interruption-queue":                  {[]string{"prod"}, nil},
		"isolated-vpc":                        {[]string{"true"}, truth},
		"eks-control-plane":                   {[]string{"true"}, truth},
		"reserved-enis":                       {[]string{"1"}, number},
		"vm-memory-overhead-percent":          {[]string{"0", "0.05"}, []string{"1", "-0.1", "NaN", "some"}},
		"ami-refresh-interval":                {[]string{"1m", "1h"}, []string{"59s", "soon"}},
		"subnet-refresh-interval":             {[]string{"2m"}, []string{"1s"}},
		"enable-zonal-shift":                  {[]string{"true", "false"}, truth},
		"disable-dry-run":                     {[]string{"true"}, truth},
		"aws-feature-gates":                   {[]string{"NodeClassCEL=true"}, nil},
		"metrics-port":                        {[]string{"0", "8000"}, []string{"70000", "-1"}},
		"health-probe-port":                   {[]string{"8001"}, []string{"http"}},
		"enable-profiling":                    {[]string{"true"}, truth},
		"disable-cluster-state-observability": {[]string{"true"}, truth},
		"disable-leader-election":             {[]string{"true"}, truth},
		"leader-election-name":                {[]string{"other"}, nil},
		"leader-election-namespace":           {[]string{"karpenter"}, nil},
		"system-namespace":                    {[]string{"karpenter"}, nil},
		"disable-controller-warmup":           {[]string{"false"}, truth},
		"karpenter-service":                   {[]string{"karpenter"}, nil},
		"kube-client-qps":                     {[]string{"500"}, []string{"0", "fast"}},
		"kube-client-burst":                   {[]string{"500"}, []string{"0"}},
		"memory-limit":                        {[]string{"-1", "2147483648", "2Gi"}, []string{"0", "-2", "much"}},
		"cpu-requests":                        {[]string{"250", "4000"}, []string{"one"}},
		"batch-idle-duration":                 {[]string{"1s", "5ms"}, []string{"-1s", "soon"}},
		"batch-max-duration":                  {[]string{"10s"}, []string{"-1s", "soon"}},
		"log-level":                           {[]string{"debug", "info", "error"}, []string{"loud"}},
		"log-output-paths":                    {[]string{"stdout", "stdout,stderr"}, nil},
		"log-error-output-paths":              {[]string{"stderr"}, nil},
		"preference-policy":                   {[]string{"Respect", "Ignore"}, []string{"Sometimes"}},
		"min-values-policy":                   {[]string{"Strict", "BestEffort"}, []string{"Loose"}},
		"feature-gates": {
			[]string{"NodeRepair=true,StaticCapacity=true", "Unknown=true"},
			[]string{"NodeRepair", "NodeRepair=on?"},
		},
		"scheduler-config": {
			[]string{`{"podTopologySpread": {"defaultConstraints": [` +
				`{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]}}`},
			[]string{"podTopologySpread: {}\nx: 1", "no/such/file", "apiVersion: v1\n"},
		},
		"ignore-dra-requests": {[]string{"true", "false"}, truth},
	} {
		if !slices.Contains(karpenterNames, flag) {
			t.Errorf("%s cannot be given as %s", flag, karpenterName(flag))
		}
		for _, v := range c.good {
			if _, _, err := parsed("--" + flag + "=" + v); err != nil {
				t.Errorf("--%s=%s: %v", flag, v, err)
			}
		}
		for _, v := range c.bad {
			if _, _, err := parsed("--" + flag + "=" + v); err == nil || !strings.Contains(err.Error(), "--"+flag) {
				t.Errorf("--%s=%s: got %v, want an error that names the flag", flag, v, err)
			}
		}
	}
}

func TestTheEnvironmentOfAKarpenterDeploymentIsUnderstood(t *testing.T) {
	for name, value := range map[string]string{
		"CLUSTER_NAME": "prod", "INTERRUPTION_QUEUE": "prod", "METRICS_PORT": "8000", "HEALTH_PROBE_PORT": "8001",
		"LOG_LEVEL":     "debug",
		"FEATURE_GATES": "NodeRepair=true,StaticCapacity=true,CapacityBuffer=true", "KUBE_CLIENT_QPS": "400",
		"CPU_REQUESTS": "2000",
		"MEMORY_LIMIT": "1073741824", "BATCH_IDLE_DURATION": "1s", "BATCH_MAX_DURATION": "10s",
		"PREFERENCE_POLICY":         "Respect",
		"LEADER_ELECTION_NAMESPACE": "karpenter", "DISABLE_LEADER_ELECTION": "false", "ENABLE_PROFILING": "true",
		"RESERVED_ENIS": "1",
	} {
		t.Setenv(name, value)
	}
	c := newRun()
	if err := c.ParseFlags([]string{"--kube-client-qps", "300"}); err != nil {
		t.Fatal(err)
	}
	if err := c.PreRunE(c, nil); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"cluster-name": "prod", "metrics-port": "8000", "log-level": "debug", "leader-election-namespace": "karpenter",
		"kube-client-qps": "300", // the command line takes precedence
	} {
		if got := c.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
	t.Setenv("RESERVED_ENIS", "all")
	c = newRun()
	if err := c.PreRunE(c, nil); err == nil || !strings.Contains(err.Error(), "RESERVED_ENIS") {
		t.Errorf("got %v, want an error that names the variable", err)
	}
}

func TestSettingsReachTheController(t *testing.T) {
	s, o, err := parsed("--metrics-port", "8000", "--feature-gates", "NodeRepair=true", "--preference-policy",
		"Respect", "--cpu-requests", "2500", "--min-values-policy", "BestEffort",
		"--batch-idle-duration", "5ms", "--ami-refresh-interval", "10m", "--subnet-refresh-interval", "3m",
		"--leader-election-namespace", "karpenter",
		"--memory-limit", "1Gi")
	if err != nil {
		t.Fatal(err)
	}
	if o.MetricsAddress != ":8000" || o.HealthAddress != "127.0.0.1:8081" {
		t.Errorf("metrics at %q, health at %q: a port that is given is open to all, the default to this machine alone",
			o.MetricsAddress, o.HealthAddress)
	}
	if want := (gates.Gates{NodeRepair: true, ReservedCapacity: true, Nominations: true}); o.Gates != want {
		t.Errorf("gates %v, want %v", o.Gates, want)
	}
	if o.Policy.Preferences != model.Respect || o.Policy.MinValues != model.BestEffort || o.Parallel != 3 ||
		o.BatchIdle != 5*time.Millisecond || o.ClassRefresh != 3*time.Minute {
		t.Errorf("got %+v", o)
	}
	if !o.LeaderElection || o.LeaderName != "karpenter-leader-election" || o.LeaderNamespace != "karpenter" {
		t.Errorf("leader election %v by %s/%s", o.LeaderElection, o.LeaderNamespace, o.LeaderName)
	}
	if limit, _ := s.memory(); limit != 1<<30 {
		t.Errorf("memory limit %d", limit)
	}
	if _, o, _ = parsed("--disable-leader-election"); o.LeaderElection {
		t.Error("leader election is on although it was disabled")
	}
}

// The page of the controller forecasts with the capacities that the controller launches with.
func TestThePageHasTheControllersCatalogue(t *testing.T) {
	s, _, err := parsed("--reserved-enis", "1", "--vm-memory-overhead-percent", "0.1", "--isolated-vpc")
	if err != nil {
		t.Fatal(err)
	}
	o := s.catalogOptions(awssdk.Config{})
	if o.ReservedENIs != 1 || *o.VMMemoryOverheadPercent != 0.1 || !o.IsolatedVPC || o.ClusterName != "prod" {
		t.Errorf("got %+v", o)
	}
}

func TestWhatIsNotCarriedOutIsSaid(t *testing.T) {
	s, _, err := parsed("--aws-feature-gates=NodeClassCEL=true", "--karpenter-service", "karpenter", "--disable-dry-run")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.inert.wanted(); !slices.Equal(got, []string{"aws-feature-gates"}) {
		t.Errorf("got %v", got)
	}
}

func TestTheLogGoesWhereItIsSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	s, _, err := parsed("--log-output-paths", path, "--log-format", "json", "--log-level", "warn")
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.openLogger()
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not this")
	log.Warn("this")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"msg":"this"`) || strings.Contains(string(text), "not this") {
		t.Errorf("%v: %s", err, text)
	}
	s.logPaths = filepath.Join(path, "below-a-file")
	if _, err := s.openLogger(); err == nil || !strings.Contains(err.Error(), "--log-output-paths") {
		t.Errorf("got %v", err)
	}
}
