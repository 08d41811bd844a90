package awsapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// memoryKubernetes is a cluster whose profiles take a minute to be created or deleted.
type memoryKubernetes struct {
	clock *clock.Virtual

	mu       sync.Mutex
	profiles []FargateProfile
	due      map[string]time.Time // when the change in progress is done
	roles    []string             // roles that may join
}

func (k *memoryKubernetes) FargateProfiles(context.Context) ([]FargateProfile, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.profiles = slices.DeleteFunc(k.profiles, func(p FargateProfile) bool {
		return p.Status == types.FargateProfileStatusDeleting && !k.clock.Now().Before(k.due[p.UID])
	})
	for i := range k.profiles {
		if p := &k.profiles[i]; p.Status == types.FargateProfileStatusCreating && !k.clock.Now().Before(k.due[p.UID]) {
			p.Status = types.FargateProfileStatusActive
		}
	}
	return slices.Clone(k.profiles), nil
}

func (k *memoryKubernetes) CreateFargateProfile(_ context.Context, p types.FargateProfile) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	p.Status, p.CreatedAt = types.FargateProfileStatusCreating, &now
	if k.due == nil {
		k.due = map[string]time.Time{}
	}
	uid := "uid-of-" + *p.FargateProfileName
	k.due[uid] = now.Add(time.Minute)
	k.profiles = append(k.profiles, FargateProfile{p, uid})
	return nil
}

func (k *memoryKubernetes) DeleteFargateProfile(_ context.Context, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := findProfile(k.profiles, name)
	p.Status, k.due[p.UID] = types.FargateProfileStatusDeleting, k.clock.Now().Add(time.Minute)
	return nil
}

func (k *memoryKubernetes) TagFargateProfile(_ context.Context, name string, tags map[string]string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	findProfile(k.profiles, name).Tags = tags
	return nil
}

func (k *memoryKubernetes) Addons(context.Context) ([]Addon, error) {
	now := k.clock.Now()
	return []Addon{{types.Addon{
		AddonName: aws.String("coredns"), AddonVersion: aws.String("v1.11.4-eksbuild.2"), Status: types.AddonStatusDegraded,
		CreatedAt: &now, Owner: aws.String("aws"),
	}, "uid-of-coredns"}}, nil
}

// fargateStory returns a client of EKS and a function that creates a profile.
func fargateStory(t *testing.T) (place, *eks.Client, func(change func(*eks.CreateFargateProfileInput)) error) {
	t.Helper()
	p := newPlace(t)
	client := eks.NewFromConfig(configFor(p.url, "us-west-2"))
	return p, client, func(change func(*eks.CreateFargateProfileInput)) error {
		in := &eks.CreateFargateProfileInput{
			ClusterName: aws.String("nodeless"), FargateProfileName: aws.String("apps"),
			PodExecutionRoleArn: aws.String("arn:aws:iam::123456789012:role/pods"),
			Selectors:           []types.FargateProfileSelector{{Namespace: aws.String("apps")}},
		}
		change(in)
		_, err := client.CreateFargateProfile(t.Context(), in)
		return err
	}
}

func TestWhatIsWrongWithAFargateProfileIsSaidAsEKSSaysIt(t *testing.T) {
	_, _, create := fargateStory(t)
	selectors := func(n int) (s []types.FargateProfileSelector) {
		for i := range n {
			s = append(s, types.FargateProfileSelector{Namespace: aws.String(fmt.Sprint("n", i))})
		}
		return s
	}
	labels := map[string]string{}
	for i := range 6 {
		labels[fmt.Sprint("k", i)] = "v"
	}
	for want, change := range map[string]func(*eks.CreateFargateProfileInput){
		"ResourceNotFoundException: No cluster found for name: other.": func(in *eks.CreateFargateProfileInput) {
			in.ClusterName = aws.String("other")
		},
		"InvalidParameterException: Fargate Profile requires at least one selector.": func(in *eks.CreateFargateProfileInput) {
			in.Selectors = nil
		},
		"InvalidParameterException: Fargate Profile may not have more than 5 selectors, has 6": func(in *eks.CreateFargateProfileInput) {
			in.Selectors = selectors(6)
		},
		"InvalidParameterException: Fargate Profile must have at least one selector with at least one namespace value.": func(in *eks.CreateFargateProfileInput) {
			in.Selectors[0].Namespace = nil
		},
		"InvalidParameterException: Request contains Selector with more than 5 Label pairs": func(in *eks.CreateFargateProfileInput) {
			in.Selectors[0].Labels = labels
		},
		"InvalidParameterException: The subnet ID 'subnet-1' does not exist": func(in *eks.CreateFargateProfileInput) {
			in.Subnets = []string{"subnet-1"}
		},
		"starts with the reserved prefix: 'eks-'": func(in *eks.CreateFargateProfileInput) {
			in.FargateProfileName = aws.String("eks-apps")
		},
		`fargateProfileName "a b" is invalid`: func(in *eks.CreateFargateProfileInput) {
			in.FargateProfileName = aws.String("a b")
		},
		"is not the ARN of an IAM role": func(in *eks.CreateFargateProfileInput) { in.PodExecutionRoleArn = aws.String("pods") },
		"has a path other than /": func(in *eks.CreateFargateProfileInput) {
			in.PodExecutionRoleArn = aws.String("arn:aws:iam::123456789012:role/team/pods")
		},
		"could not be assumed because it does not exist": func(in *eks.CreateFargateProfileInput) {
			in.PodExecutionRoleArn = aws.String("arn:aws:iam::123456789012:role/missing-role")
		},
		"do not begin with aws:": func(in *eks.CreateFargateProfileInput) { in.Tags = map[string]string{"aws:a": "b"} },
	} {
		if err := create(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestANodeGroupHasNoTagsThatOnlyAWSSets(t *testing.T) {
	p := newPlace(t)
	_, err := eks.NewFromConfig(configFor(p.url, "us-west-2")).CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
		ClusterName: aws.String("nodeless"), NodegroupName: aws.String("web"), Subnets: []string{p.region.Subnets()[0].ID},
		NodeRole: aws.String("arn:aws:iam::123456789012:role/nodes"),
		Tags:     map[string]string{"aws:cloudformation:stack-name": "web"},
	})
	if err == nil || !strings.Contains(err.Error(), "do not begin with aws:") {
		t.Error(err)
	}
}

const mimeUserData = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo own

--//--
`

// partsOf returns the contents of a MIME multipart document by type.
func partsOf(t *testing.T, data []byte) map[string]string {
	t.Helper()
	m := must[*mail.Message](t)(mail.ReadMessage(bytes.NewReader(data)))
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(p.Header.Get("Content-Type"), ";")
		out[kind] = string(must[[]byte](t)(io.ReadAll(p)))
	}
}

// nodegroupFrom creates a launch template and a node group of the same name, which names no version of the template.
func nodegroupFrom(t *testing.T, p place, client *eks.Client, name, userData string) (*types.Nodegroup, error) {
	t.Helper()
	must[region.LaunchTemplate](t)(p.region.CreateLaunchTemplate(name,
		region.TemplateData{UserData: []byte(userData)}, nil))
	out, err := client.CreateNodegroup(t.Context(), &eks.CreateNodegroupInput{
		ClusterName: aws.String("nodeless"), NodegroupName: &name, Subnets: []string{p.region.Subnets()[0].ID},
		NodeRole:       aws.String("arn:aws:iam::123456789012:role/nodes"),
		LaunchTemplate: &types.LaunchTemplateSpecification{Name: &name},
	})
	if err != nil {
		return nil, err
	}
	return out.Nodegroup, nil
}

// instancesOf returns the instances of a node group.
func instancesOf(p place, name string) []region.Instance {
	return slices.DeleteFunc(p.region.Instances(), func(i region.Instance) bool {
		return i.Tags["eks:nodegroup-name"] != name
	})
}

func TestANodeGroupKeepsTheUserDataOfItsTemplate(t *testing.T) {
	p := newPlace(t)
	client := eks.NewFromConfig(configFor(p.url, "us-west-2"))
	for name, text := range map[string]string{
		"unix": mimeUserData, "dos": strings.ReplaceAll(mimeUserData, "\n", "\r\n"),
	} {
		must[*types.Nodegroup](t)(nodegroupFrom(t, p, client, name, text))
		p.clock.Advance(time.Minute)
		parts := partsOf(t, instancesOf(p, name)[0].UserData)
		if len(parts) != 2 || !strings.Contains(parts["text/x-shellscript"], "echo own") ||
			!strings.Contains(parts["application/node.eks.aws"], `"kind":"NodeConfig"`) {
			t.Errorf("%s: parts %q", name, parts)
		}
	}
	groups := len(p.region.AutoScalingGroups())
	for name, text := range map[string]string{
		"script": "#!/bin/bash\n", "no-end": strings.ReplaceAll(mimeUserData, "--//--", ""),
	} {
		must[*types.Nodegroup](t)(nodegroupFrom(t, p, client, name, text))
		p.clock.Advance(time.Minute)
		n := must[*eks.DescribeNodegroupOutput](t)(client.DescribeNodegroup(t.Context(),
			&eks.DescribeNodegroupInput{ClusterName: aws.String("nodeless"), NodegroupName: &name})).Nodegroup
		if n.Status != types.NodegroupStatusCreateFailed || len(n.Health.Issues) != 1 ||
			len(n.Resources.AutoScalingGroups) > 0 {
			t.Fatalf("%s: %s, %+v, %+v", name, n.Status, n.Health.Issues, n.Resources)
		}
		if i := n.Health.Issues[0]; i.Code != types.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration ||
			*i.Message != "User data was not in the MIME multipart format." || len(i.ResourceIds) > 0 {
			t.Errorf("%s: %s: %s %v", name, i.Code, *i.Message, i.ResourceIds)
		}
	}
	if n := len(p.region.AutoScalingGroups()); n != groups {
		t.Errorf("%d Auto Scaling groups, before them %d", n, groups)
	}
}

func TestANodeGroupThatCouldNotBeCreatedIsOnlyDeleted(t *testing.T) {
	p := newPlace(t)
	client := eks.NewFromConfig(configFor(p.url, "us-west-2"))
	cluster, name := aws.String("nodeless"), aws.String("script")
	must[*types.Nodegroup](t)(nodegroupFrom(t, p, client, *name, "#!/bin/bash\n"))
	_, err := client.UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{
		ClusterName: cluster, NodegroupName: name,
		ScalingConfig: &types.NodegroupScalingConfig{DesiredSize: aws.Int32(1)},
	})
	wantCode(t, err, "ResourceInUseException")
	deleted := must[*eks.DeleteNodegroupOutput](t)(client.DeleteNodegroup(t.Context(),
		&eks.DeleteNodegroupInput{ClusterName: cluster, NodegroupName: name})).Nodegroup
	if deleted.Status != types.NodegroupStatusDeleting || len(p.kubernetes.roles) > 0 {
		t.Errorf("%s, roles %v", deleted.Status, p.kubernetes.roles)
	}
	_, err = client.DescribeNodegroup(t.Context(),
		&eks.DescribeNodegroupInput{ClusterName: cluster, NodegroupName: name})
	wantCode(t, err, "ResourceNotFoundException")
}

func TestANodeGroupKeepsTheVersionOfItsTemplate(t *testing.T) {
	p := newPlace(t)
	client := eks.NewFromConfig(configFor(p.url, "us-west-2"))
	name := aws.String("web")
	n := must[*types.Nodegroup](t)(nodegroupFrom(t, p, client, *name, mimeUserData))
	if v := aws.ToString(n.LaunchTemplate.Version); v != "1" {
		t.Errorf("version %q", v)
	}
	if _, _, err := p.region.CreateLaunchTemplateVersion("", *name, "",
		region.TemplateData{UserData: []byte("#!/bin/bash\n")}); err != nil {
		t.Fatal(err)
	}
	must[region.LaunchTemplate](t)(p.region.SetDefaultVersion("", *name, "2"))
	scale := func(desired int32, labels *types.UpdateLabelsPayload) {
		before := instancesOf(p, *name)
		must[*eks.UpdateNodegroupConfigOutput](t)(client.UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{
			ClusterName: aws.String("nodeless"), NodegroupName: name, Labels: labels,
			ScalingConfig: &types.NodegroupScalingConfig{MaxSize: aws.Int32(4), DesiredSize: &desired},
		}))
		p.clock.Advance(time.Minute)
		for _, i := range instancesOf(p, *name) {
			if slices.ContainsFunc(before, func(b region.Instance) bool { return b.ID == i.ID }) {
				continue
			}
			parts := partsOf(t, i.UserData)
			if !strings.Contains(parts["text/x-shellscript"], "echo own") ||
				labels != nil && !strings.Contains(parts["application/node.eks.aws"], "team=a") {
				t.Errorf("%d: parts %q", desired, parts)
			}
		}
		if n := len(instancesOf(p, *name)); n != int(desired) {
			t.Errorf("%d instances, want %d", n, desired)
		}
	}
	p.clock.Advance(time.Minute)
	scale(3, nil)
	scale(4, &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"team": "a"}})
}

func TestAClusterHasTenFargateProfilesAndChangesOneAtATime(t *testing.T) {
	p, client, create := fargateStory(t)
	for i := range maxFargateProfiles {
		name := fmt.Sprint("apps-", i)
		named := func(in *eks.CreateFargateProfileInput) { in.FargateProfileName = &name }
		if err := create(named); err != nil {
			t.Fatal(err)
		}
		wantCode(t, create(named), "ResourceInUseException")
		err := create(func(*eks.CreateFargateProfileInput) {})
		wantCode(t, err, "ResourceInUseException")
		p.clock.Advance(time.Minute)
	}
	wantCode(t, create(func(*eks.CreateFargateProfileInput) {}), "ResourceLimitExceededException")
	remove := func(name string) error {
		_, err := client.DeleteFargateProfile(t.Context(), &eks.DeleteFargateProfileInput{
			ClusterName: aws.String("nodeless"), FargateProfileName: &name,
		})
		return err
	}
	wantCode(t, remove("nobody"), "ResourceNotFoundException")
	if err := remove("apps-3"); err != nil {
		t.Fatal(err)
	}
	if err := remove("apps-3"); err != nil {
		t.Errorf("deleting it again while it is deleted: %v", err)
	}
	if err := remove("apps-4"); err == nil || !strings.Contains(err.Error(), "Cannot delete Fargate Profile apps-4 because "+
		"cluster nodeless currently has Fargate profile apps-3 in status DELETING") {
		t.Error(err)
	}
	p.clock.Advance(time.Minute)
	if err := create(func(*eks.CreateFargateProfileInput) {}); err != nil {
		t.Errorf("one has made room: %v", err)
	}
}

// A region without a cluster behind EKS, as in tests of the AWS provider, has no profiles and says so.
func TestWithoutAClusterBehindEKSProfilesAreRefused(t *testing.T) {
	_, _, config := memoryRegion(t)
	_, err := eks.NewFromConfig(config).ListFargateProfiles(t.Context(),
		&eks.ListFargateProfilesInput{ClusterName: aws.String("prod")})
	if code := refused(t, err, "ListFargateProfiles"); code != "InvalidRequestException" {
		t.Error(code)
	}
}

func TestAccessEntriesAreTheCreatorNodesAndPodExecutionRoles(t *testing.T) {
	p, client, create := fargateStory(t)
	must[region.InstanceProfile](t)(p.region.CreateInstanceProfile("nodes", "", nil))
	if err := p.region.AddRoleToInstanceProfile("nodes", "node-role"); err != nil {
		t.Fatal(err)
	}
	if err := create(func(*eks.CreateFargateProfileInput) {}); err != nil {
		t.Fatal(err)
	}
	cluster := aws.String("nodeless")
	all := must[*eks.ListAccessEntriesOutput](t)(client.ListAccessEntries(t.Context(),
		&eks.ListAccessEntriesInput{ClusterName: cluster})).AccessEntries
	const arn = "arn:aws:iam::123456789012:"
	if want := []string{arn + "role/node-role", arn + "role/pods", arn + "root"}; !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	describe := func(principal string) (*types.AccessEntry, error) {
		out, err := client.DescribeAccessEntry(t.Context(),
			&eks.DescribeAccessEntryInput{ClusterName: cluster, PrincipalArn: &principal})
		if err != nil {
			return nil, err
		}
		return out.AccessEntry, nil
	}
	for principal, want := range map[string]string{
		arn + "role/node-role": "EC2_LINUX system:node:{{EC2PrivateDNSName}} [system:nodes]",
		arn + "role/pods":      "FARGATE_LINUX system:node:{{SessionName}} [system:node-proxier system:nodes]",
		arn + "root":           "STANDARD " + arn + "root []",
	} {
		e := must[*types.AccessEntry](t)(describe(principal))
		if got := fmt.Sprint(*e.Type, " ", *e.Username, " ", e.KubernetesGroups); got != want {
			t.Errorf("%s: %s, want %s", principal, got, want)
		}
	}
	_, err := describe(arn + "role/nobody")
	wantCode(t, err, "ResourceNotFoundException")
	policies := must[*eks.ListAssociatedAccessPoliciesOutput](t)(client.ListAssociatedAccessPolicies(t.Context(),
		&eks.ListAssociatedAccessPoliciesInput{ClusterName: cluster, PrincipalArn: aws.String(arn + "root")}))
	if len(policies.AssociatedAccessPolicies) != 1 || *policies.AssociatedAccessPolicies[0].PolicyArn != clusterAdmin {
		t.Errorf("policies %+v", policies.AssociatedAccessPolicies)
	}
}

func (k *memoryKubernetes) MapRole(_ context.Context, r NodeRole) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.roles = append(k.roles, r.ARN+" "+r.Username)
	return nil
}

func (k *memoryKubernetes) UnmapRole(_ context.Context, r NodeRole) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.roles, r.ARN+" "+r.Username)
	k.roles = slices.Delete(k.roles, i, i+1)
	return nil
}
