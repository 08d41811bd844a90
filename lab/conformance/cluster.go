package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodeless/nodeless/lab/process"
)

// podName is the name of the controller's pod: the lease holder is named after it, and the suite looks for it.
const podName = "karpenter-0"

// startUp starts the control plane, the region and the node simulator.
func (c *cluster) startUp(ctx context.Context) error {
	args := []string{
		// the suite counts nodes
		"--controller=false", "--boot-time", "500ms", "--addons=false",
		"--ready-timeout", startLimit.String(), "--audit-log", filepath.Join(c.o.Dir, "audit.log"),
	}
	if !c.o.EC2 {
		if err := writeTypes(c.typesFile()); err != nil {
			return err
		}
		args = append(args, "--types", c.typesFile())
	}
	var err error
	c.up, c.session, err = process.Up(ctx, c.o.Dir, c.o.Nodeless, args...)
	return err
}

// startController starts the controller under test with the settings of Karpenter's own CI, in the form in which its
// Helm chart passes them.
func (c *cluster) startController(ctx context.Context) error {
	var err error
	metrics := net.JoinHostPort(controllerIP.String(), strconv.Itoa(c.suite.metrics))
	c.controller, err = process.Start(c.o.Dir, "controller", append(slices.Clone(c.suite.settings),
		"AWS_ENDPOINT_URL="+c.session.RegionURL, "AWS_REGION="+c.session.Region,
		"AWS_ACCESS_KEY_ID=conformance", "AWS_SECRET_ACCESS_KEY=conformance", "AWS_EC2_METADATA_DISABLED=true",
		"FEATURE_GATES=StaticCapacity=true,SpotToSpotConsolidation=false,NodeRepair=true,CapacityBuffer=true",
		"PREFERENCE_POLICY=Respect", "MIN_VALUES_POLICY=Strict",
		"LOG_LEVEL=debug", "CPU_REQUESTS=1000", "MEMORY_LIMIT=2147483648", "SYSTEM_NAMESPACE=kube-system",
		"POD_NAME="+podName,
	), append([]string{
		c.o.Controller, "run", "--kubeconfig", c.session.Kubeconfig, "--cluster-name", "nodeless", "--interruption-queue",
		"nodeless",
		"--metrics-address", metrics, "--health-address", "127.0.0.1:8081", "--leader-elect", "--enable-profiling",
		"--state-dir", c.o.Dir,
	}, c.kwokFlags()...)...)
	if err != nil {
		return err
	}
	return process.Await(ctx, "the controller", c.controller, func(ctx context.Context) error {
		return get(ctx, "http://127.0.0.1:8081/readyz")
	})
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

// config returns a client configuration with full access.
func (c *cluster) config() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.session.Kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent, cfg.QPS, cfg.Burst = "conformance", 100, 200
	return cfg, nil
}

// follow records the lengths of the logs of the controller and the API server; cut then copies what was appended
// since to a folder.
func (c *cluster) follow(dir string) (cut func(), err error) {
	type mark struct {
		path string
		at   int64
	}
	var marks []mark
	for _, name := range []string{"controller.log", "audit.log"} {
		m := mark{path: filepath.Join(c.o.Dir, name)}
		if info, err := os.Stat(m.path); err == nil {
			m.at = info.Size()
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		marks = append(marks, m)
	}
	return func() {
		for _, m := range marks {
			_ = copyFrom(m.path, m.at, filepath.Join(dir, filepath.Base(m.path)))
		}
	}, nil
}

func copyFrom(path string, at int64, to string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(at, io.SeekStart); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// quote escapes a text for a regular expression.
func quote(text string) string { return regexp.QuoteMeta(text) }
