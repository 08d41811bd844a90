package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/config"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
)

// AWS returns the configuration for requests to the cluster's AWS: the simulated region of "nodeless up", or AWS
// itself.
func (t *Cluster) AWS(ctx context.Context, region string) (awssdk.Config, error) {
	if t.session == nil {
		return AWS(ctx, region)
	}
	if region != "" && region != t.session.Region {
		return awssdk.Config{}, fmt.Errorf("--region %s: the cluster of \"nodeless up\" is in %s", region, t.session.Region)
	}
	return simulated(t.session, t.dir), nil
}

// AtAWS returns what AWS calls the cluster, by a flag or by the kubeconfig, and the configuration for requests to
// AWS.
func (t *Cluster) AtAWS(ctx context.Context, name, region string) (string, awssdk.Config, error) {
	if name = cmp.Or(name, t.EKSName); name == "" {
		return "", awssdk.Config{}, errors.New("the kubeconfig does not say what AWS calls the cluster: name it with " +
			"--cluster-name")
	}
	cfg, err := t.AWS(ctx, region)
	return name, cfg, err
}

// AWS returns the configuration for requests to AWS, from the environment and ~/.aws; region, unless "", overrides
// theirs.
func AWS(ctx context.Context, region string) (awssdk.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return cfg, fmt.Errorf("AWS configuration: %w", err)
	}
	if region != "" {
		cfg.Region = region
	}
	if cfg.Region == "" {
		return cfg, errors.New("no AWS region: give --region or set AWS_REGION")
	}
	return cfg, nil
}

// simulated returns the configuration for requests to the simulated region of the cluster in a data directory.
func simulated(s *localcluster.Session, dir string) awssdk.Config {
	return awssdk.Config{
		Region: s.Region, BaseEndpoint: &s.RegionURL, Credentials: localcluster.AWSCredentials(dir),
	}
}

// eksName returns the name of the EKS cluster of a context that the AWS CLI or eksctl wrote, of the current context
// if context is ""; "" if there is none.
func eksName(config clientcmdapi.Config, context string) string {
	in := config.Contexts[cmp.Or(context, config.CurrentContext)]
	if in == nil {
		return ""
	}
	cluster := in.Cluster
	if a, err := arn.Parse(cluster); err == nil {
		_, name, _ := strings.Cut(a.Resource, "/")
		return name
	}
	if place, ok := strings.CutSuffix(cluster, ".eksctl.io"); ok { // NAME.REGION
		name, _, _ := strings.Cut(place, ".")
		return name
	}
	return ""
}
