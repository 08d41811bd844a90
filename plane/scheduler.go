package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/component-base/configz"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	schedapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedoptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"
)

// CheckSchedulerConfig returns an error if kube-scheduler would reject a KubeSchedulerConfiguration, or for
// extenders.
func CheckSchedulerConfig(document []byte) error {
	o, kind, err := configscheme.Codecs.UniversalDecoder().Decode(document, nil, nil)
	if err != nil {
		return err
	}
	c, ok := o.(*config.KubeSchedulerConfiguration)
	if !ok {
		return fmt.Errorf("%s: use %s, kind KubeSchedulerConfiguration", kind, schedulerv1.SchemeGroupVersion)
	}
	c.APIVersion = kind.GroupVersion().String() // cleared by decoding
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		return err
	}
	if len(c.Extenders) > 0 {
		return errors.New("extenders: not supported, since plans do not consult them")
	}
	return nil
}

// startScheduler returns a channel that is closed when the scheduler's caches have synced.
func (p *Plane) startScheduler() (synced <-chan struct{}, err error) {
	flags := p.clientFlags(scheduler)
	file := filepath.Join(filepath.Dir(p.componentKubeconfig(scheduler)), scheduler+".yaml")
	if p.o.SchedulerConfig == nil {
		_ = os.Remove(file) // from an earlier run; other commands would read it
	} else {
		if err := p.writeSchedulerConfig(file); err != nil {
			return nil, fmt.Errorf("%s: configuration: %w", scheduler, err)
		}
		flags = append(flags, "--config="+file)
	}
	s := schedoptions.NewOptions()
	if err := parse(scheduler, *s.Flags, flags); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	p.run(scheduler, func(ctx context.Context) error {
		c, sched, err := schedapp.Setup(ctx, s)
		if err != nil {
			return err
		}
		go func() {
			c.InformerFactory.Start(ctx.Done())
			c.InformerFactory.WaitForCacheSync(ctx.Done())
			if sched.WaitForHandlersSync(ctx) == nil {
				close(ready)
			}
		}()
		configz.Delete("componentconfig") // of an earlier control plane's scheduler in this process
		return schedapp.Run(ctx, c, sched)
	})
	return ready, nil
}

// writeSchedulerConfig writes Options.SchedulerConfig with the client settings of this control plane, because
// kube-scheduler ignores its flags for them when it is given a file.
func (p *Plane) writeSchedulerConfig(file string) error {
	if err := CheckSchedulerConfig(p.o.SchedulerConfig); err != nil {
		return err
	}
	var c schedulerv1.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(p.o.SchedulerConfig, &c); err != nil {
		return err
	}
	off := false
	c.LeaderElection.LeaderElect, c.EnableProfiling = &off, &off
	c.ClientConnection.Kubeconfig = p.componentKubeconfig(scheduler)
	c.ClientConnection.QPS, c.ClientConnection.Burst = float32(p.o.ClientQPS), int32(2*p.o.ClientQPS)
	out, err := yaml.Marshal(&c)
	if err != nil {
		return err
	}
	return writeFile(file, out)
}
