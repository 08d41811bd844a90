// Package fromaws reads from AWS what package migrate migrates: the managed node groups and Fargate profiles of a
// cluster, its Auto Scaling groups, and their launch templates and launch configurations. It returns them as the AWS
// CLI prints them. It only lists and describes.
package fromaws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/nodeless/nodeless/migrate"
)

// maxNames is how many names Auto Scaling accepts in one call.
const maxNames = 50

// reader reads from AWS what belongs to one cluster.
type reader struct {
	cluster, region string
	eks             *eks.Client
	ec2             *ec2.Client
	autoscaling     *autoscaling.Client

	out            bytes.Buffer
	templates      map[string]map[string]bool // versions by ID or name
	configurations map[string]bool
}

// Read returns the groups of a cluster, and the definitions of the instances that they launch. Errors name the call,
// its subject and the remedy.
func Read(ctx context.Context, cfg awssdk.Config, cluster string) (migrate.Input, error) {
	r := &reader{
		cluster: cluster, region: cfg.Region, eks: eks.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg),
		autoscaling: autoscaling.NewFromConfig(cfg), templates: map[string]map[string]bool{},
		configurations: map[string]bool{},
	}
	for _, step := range []func(context.Context) error{
		r.managedGroups, r.fargateProfiles, r.groups, r.launchTemplates, r.launchConfigurations,
	} {
		if err := step(ctx); err != nil {
			return migrate.Input{}, err
		}
	}
	if r.out.Len() == 0 {
		return migrate.Input{}, fmt.Errorf("AWS has no node groups, Fargate profiles or Auto Scaling groups of the cluster "+
			"%s in %s; name another cluster with --cluster-name, or region with --region; groups without a tag that names the "+
			"cluster are read with -f", cluster, cfg.Region)
	}
	return migrate.Input{Name: "AWS", Reader: &r.out, Live: true}, nil
}

// write adds a document as the CLI prints it.
func (r *reader) write(key string, v any) error {
	text, err := json.Marshal(map[string]any{key: v})
	if err != nil {
		return fmt.Errorf("%s of AWS: %w", key, err)
	}
	r.out.WriteString("---\n")
	r.out.Write(text)
	r.out.WriteByte('\n')
	return nil
}

func (r *reader) managedGroups(ctx context.Context) error {
	pages := eks.NewListNodegroupsPaginator(r.eks, &eks.ListNodegroupsInput{ClusterName: &r.cluster})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if notEKS(err) {
			return nil // a cluster of kops, or self-managed
		}
		if err != nil {
			return r.explain("eks:ListNodegroups", "cluster "+r.cluster, err)
		}
		for _, name := range page.Nodegroups {
			out, err := r.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &r.cluster, NodegroupName: &name})
			if err != nil {
				return r.explain("eks:DescribeNodegroup", "node group "+name+" of cluster "+r.cluster, err)
			}
			if t := out.Nodegroup.LaunchTemplate; t != nil {
				r.uses(t.Id, t.Name, t.Version)
			}
			if err := r.write("nodegroup", printed(out.Nodegroup, lowerFirst)); err != nil {
				return err
			}
		}
	}
	return nil
}

// notEKS reports whether EKS does not know the cluster.
func notEKS(err error) bool {
	var unknown *ekstypes.ResourceNotFoundException
	return errors.As(err, &unknown)
}

func (r *reader) fargateProfiles(ctx context.Context) error {
	pages := eks.NewListFargateProfilesPaginator(r.eks, &eks.ListFargateProfilesInput{ClusterName: &r.cluster})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if notEKS(err) {
			return nil
		}
		if err != nil {
			return r.explain("eks:ListFargateProfiles", "cluster "+r.cluster, err)
		}
		for _, name := range page.FargateProfileNames {
			out, err := r.eks.DescribeFargateProfile(ctx,
				&eks.DescribeFargateProfileInput{ClusterName: &r.cluster, FargateProfileName: &name})
			if err != nil {
				return r.explain("eks:DescribeFargateProfile", "Fargate profile "+name+" of cluster "+r.cluster, err)
			}
			if err := r.write("fargateProfile", printed(out.FargateProfile, lowerFirst)); err != nil {
				return err
			}
		}
	}
	return nil
}

// groups reads the Auto Scaling groups with a tag that names the cluster. It reads what they launch only if they
// belong to no managed node group.
func (r *reader) groups(ctx context.Context) error {
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(r.autoscaling,
		&autoscaling.DescribeAutoScalingGroupsInput{Filters: []astypes.Filter{
			{Name: awssdk.String("tag-key"), Values: clusterTags(r.cluster)},
		}})
	var all []any
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return r.explain("autoscaling:DescribeAutoScalingGroups", "groups of cluster "+r.cluster, err)
		}
		for i := range page.AutoScalingGroups {
			if g := &page.AutoScalingGroups[i]; OfCluster(g.Tags, r.cluster) {
				all = append(all, printed(g, asIs))
				r.launchOf(g)
			}
		}
	}
	if all == nil {
		return nil
	}
	return r.write("AutoScalingGroups", all)
}

// launchOf notes the launch template or launch configuration of a group that belongs to no managed node group.
func (r *reader) launchOf(g *astypes.AutoScalingGroup) {
	if slices.ContainsFunc(g.Tags, func(t astypes.TagDescription) bool {
		return awssdk.ToString(t.Key) == migrate.ManagedTag
	}) {
		return
	}
	if g.LaunchConfigurationName != nil {
		r.configurations[*g.LaunchConfigurationName] = true
	}
	t := g.LaunchTemplate
	if mixed := g.MixedInstancesPolicy; mixed != nil && mixed.LaunchTemplate != nil {
		t = mixed.LaunchTemplate.LaunchTemplateSpecification
	}
	if t != nil {
		r.uses(t.LaunchTemplateId, t.LaunchTemplateName, t.Version)
	}
}

// uses notes a version of a launch template, or the default version if none is given.
func (r *reader) uses(id, name, version *string) {
	key := awssdk.ToString(id)
	if key == "" {
		key = awssdk.ToString(name)
	}
	if r.templates[key] == nil {
		r.templates[key] = map[string]bool{}
	}
	number := awssdk.ToString(version)
	if number == "" {
		number = "$Default"
	}
	r.templates[key][number] = true
}

func (r *reader) launchTemplates(ctx context.Context) error {
	for _, key := range slices.Sorted(maps.Keys(r.templates)) {
		in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: slices.Sorted(maps.Keys(r.templates[key]))}
		if len(key) > 3 && key[:3] == "lt-" {
			in.LaunchTemplateId = &key
		} else {
			in.LaunchTemplateName = &key
		}
		pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(r.ec2, in)
		versions := map[int64]ec2types.LaunchTemplateVersion{}
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return r.explain("ec2:DescribeLaunchTemplateVersions", "launch template "+key, err)
			}
			for _, v := range page.LaunchTemplateVersions {
				versions[awssdk.ToInt64(v.VersionNumber)] = v
			}
		}
		var all []any
		for _, number := range slices.Sorted(maps.Keys(versions)) { // the latest comes last
			v := versions[number]
			all = append(all, printed(&v, asIs))
		}
		if err := r.write("LaunchTemplateVersions", all); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) launchConfigurations(ctx context.Context) error {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(r.configurations)), maxNames) {
		out, err := r.autoscaling.DescribeLaunchConfigurations(ctx,
			&autoscaling.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: names})
		if err != nil {
			return r.explain("autoscaling:DescribeLaunchConfigurations", strconv.Itoa(len(names))+" launch configurations", err)
		}
		var all []any
		for i := range out.LaunchConfigurations {
			all = append(all, printed(&out.LaunchConfigurations[i], asIs))
		}
		if err := r.write("LaunchConfigurations", all); err != nil {
			return err
		}
	}
	return nil
}
