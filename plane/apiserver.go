package plane

import (
	"context"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	apiapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// serveAPI runs kube-apiserver as apiapp.Run does, with what no flag can say: who else may come in, and how to reach nodes.
func (p *Plane) serveAPI(ctx context.Context, o apioptions.CompletedOptions) error {
	config, err := apiapp.NewConfig(o)
	if err != nil {
		return err
	}
	if p.o.Tokens != nil {
		// Requests meet the aggregator's chain; the others are set alike, since TokenReviews ask theirs.
		for _, c := range []*genericapiserver.Config{config.KubeAPIs.ControlPlane.Generic, &config.ApiExtensions.GenericConfig.Config, &config.Aggregator.GenericConfig.Config} {
			tokens := group.NewAuthenticatedGroupAdder(bearertoken.New(p.o.Tokens))
			c.Authentication.Authenticator = union.New(tokens, c.Authentication.Authenticator)
		}
	}
	if p.o.DialKubelet != nil {
		config.KubeAPIs.Extra.KubeletClientConfig.Lookup = func(egressselector.NetworkContext) (net.DialFunc, error) { return p.o.DialKubelet, nil }
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := apiapp.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}
