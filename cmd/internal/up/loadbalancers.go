//go:build !noplane

package up

import (
	"context"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/controller/loadbalancer"
	"github.com/nodeless/nodeless/region/elb"
)

// startLoadBalancers carries the traffic of the region's load balancers, on loopback. The controller that creates
// load balancers for Ingresses and Services is part of what --controller=false leaves out: the user then runs
// another.
func (l *local) startLoadBalancers(run, _ context.Context) error {
	data := elb.New(elb.Options{Region: l.region, Dial: l.dialPod, Log: l.log})
	l.spawn(run, "load balancers", data.Run)
	if !l.o.controller {
		return nil
	}
	l.spawn(run, "load balancer controller", func(ctx context.Context) error {
		return loadbalancer.Run(ctx, loadbalancer.Options{
			REST: l.restConfig("nodeless-load-balancers"), Cluster: localcluster.EKSName, Log: l.log,
			AWS: l.awsConfig(),
			Locate: func(name string) (loadbalancer.Location, bool) {
				a, ok := data.Address(name)
				at := loadbalancer.Location{IP: a.IP, Hostname: a.Name, Ports: map[int32]int32{}}
				for port, on := range a.Ports {
					at.Ports[int32(port)] = int32(on) //nolint:gosec // both are ports
				}
				return at, ok
			},
		})
	})
	return nil
}
