package aws

import (
	"context"
	"errors"
	"fmt"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// profiles maintains the instance profiles of classes.
type profiles struct {
	*account

	mu   sync.Mutex
	seen map[string]cached[seenProfile] // by cloudName
}

// seenProfile is a profile and the role that was last seen in it.
type seenProfile struct{ name, role string }

func newProfiles(a *account) *profiles {
	return &profiles{account: a, seen: map[string]cached[seenProfile]{}}
}

// refusedByIAM are the error codes of calls that IAM refuses until the role or the account is changed (IAM API
// reference, CreateInstanceProfile, AddRoleToInstanceProfile and "Common Errors").
var refusedByIAM = map[string]bool{
	"ValidationError": true, "InvalidInput": true, "LimitExceeded": true, "UnmodifiableEntity": true,
}

// resolve uses the profile that the class names, or maintains a profile of our own with the class's role.
func (s *profiles) resolve(ctx context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	const condition = ec2v1.ConditionTypeInstanceProfileReady
	role := roleName(class.Spec.Role)
	if named := awssdk.ToString(class.Spec.InstanceProfile); named != "" {
		class.Status.InstanceProfile = named
		return ready(condition), nil
	}
	if role == "" {
		class.Status.InstanceProfile = ""
		return unready(condition, "InstanceProfileMissing",
			"spec.role: set it, or spec.instanceProfile; nodes need an IAM role to join"), nil
	}
	s.mu.Lock()
	seen, ok := s.seen[cloudName(class)]
	s.mu.Unlock()
	if !ok || seen.value.role != role || s.now().Sub(seen.at) > profileAge {
		name, err := s.ensure(ctx, class, role)
		if err != nil {
			s.forget(cloudName(class)) // the profile may hold another role now, or none
			if code(err) == codeNoEntity {
				return unready(condition, "RoleNotFound", "spec.role: IAM role %q does not exist; create it or correct the name",
					role), nil
			}
			if refusedByIAM[code(err)] {
				return unready(condition, code(err), "spec.role: IAM refuses an instance profile with role %q: %v", role,
					steady(err)), nil
			}
			return verdict{}, err
		}
		seen = cached[seenProfile]{seenProfile{name, role}, s.now()}
		s.mu.Lock()
		s.seen[cloudName(class)] = seen
		s.mu.Unlock()
	}
	class.Status.InstanceProfile = seen.value.name
	return ready(condition), nil
}

// name returns a name determined by cluster, region and class, so that any process finds the profile again.
func (s *profiles) name(class *ec2v1.EC2NodeClass) string {
	class = &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: cloudName(class)}} // the name depends on nothing else
	return class.LegacyInstanceProfileName(s.o.ClusterName, s.o.AWS.Region)
}

// of returns the name and the profile of a class; the profile is nil if it has yet to be created. A profile that the
// status names is kept if it was made for the class: Karpenter's names are random, and the class may have been
// Karpenter's.
func (s *profiles) of(ctx context.Context, class *ec2v1.EC2NodeClass) (string, *iamtypes.InstanceProfile, error) {
	if name := class.Status.InstanceProfile; name != "" && name != s.name(class) {
		profile, err := s.find(ctx, name)
		if err != nil || profile != nil && s.madeFor(class, profile) {
			return name, profile, err
		}
	}
	profile, err := s.find(ctx, s.name(class))
	return s.name(class), profile, err
}

// madeFor reports whether a profile has the tags of profiles that are made for a class.
func (s *profiles) madeFor(class *ec2v1.EC2NodeClass, profile *iamtypes.InstanceProfile) bool {
	has := map[string]string{}
	for _, t := range profile.Tags {
		has[awssdk.ToString(t.Key)] = awssdk.ToString(t.Value)
	}
	for _, t := range s.tags(class) {
		if value, ok := has[*t.Key]; !ok || value != *t.Value {
			return false
		}
	}
	return true
}

// ensure makes the profile of a class hold a role, and returns the profile's name. If the role cannot be added, the
// profile keeps the one that it has, which running instances need.
func (s *profiles) ensure(ctx context.Context, class *ec2v1.EC2NodeClass, role string) (string, error) {
	name, profile, err := s.of(ctx, class)
	if err != nil {
		return "", err
	}
	if profile == nil {
		_, err := s.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
			InstanceProfileName: &name, Tags: s.tags(class),
		})
		if err != nil && code(err) != codeEntityExists {
			return "", wrap("create instance profile "+name, "iam:CreateInstanceProfile", err)
		}
		profile = &iamtypes.InstanceProfile{}
	}
	var removed *string
	for _, r := range profile.Roles {
		if awssdk.ToString(r.RoleName) == role {
			return name, nil
		}
		// A profile holds one role: remove the old one first.
		_, err := s.iam.RemoveRoleFromInstanceProfile(ctx,
			&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName})
		if err != nil {
			return "", wrap("remove role from instance profile "+name, "iam:RemoveRoleFromInstanceProfile", err)
		}
		removed = r.RoleName
	}
	if err = s.add(ctx, name, role); err != nil && removed != nil {
		err = errors.Join(err, s.add(ctx, name, *removed))
	}
	return name, err
}

// add adds a role to a profile that has none.
func (s *profiles) add(ctx context.Context, name, role string) error {
	_, err := s.iam.AddRoleToInstanceProfile(ctx,
		&iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
	return wrap(fmt.Sprintf("add role %s to instance profile %s", role, name),
		"iam:AddRoleToInstanceProfile and iam:PassRole", err)
}

// find returns the profile of a name, nil if there is none.
func (s *profiles) find(ctx context.Context, name string) (*iamtypes.InstanceProfile, error) {
	out, err := s.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch {
	case code(err) == codeNoEntity:
		return nil, nil
	case err != nil:
		return nil, wrap("get instance profile "+name, "iam:GetInstanceProfile", err)
	}
	return out.InstanceProfile, nil
}

func (s *profiles) tags(class *ec2v1.EC2NodeClass) []iamtypes.Tag {
	tags := class.InstanceProfileTags(s.o.ClusterName, s.o.AWS.Region)
	var out []iamtypes.Tag
	for _, k := range sortedKeys(tags) {
		out = append(out, iamtypes.Tag{Key: awssdk.String(k), Value: awssdk.String(tags[k])})
	}
	return out
}

// Finalize deletes what the provider created for a class that is being deleted: its instance profile and launch
// templates. Call it when no instances of the class are left. It is idempotent.
func (p *Provider) Finalize(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	name := cloudName(class)
	if isNodeGroup(class) { // nothing was created for it
		p.catalogs.forget(name)
		return nil
	}
	err := errors.Join(p.templates.deleteAll(ctx, name), p.profiles.delete(ctx, class))
	p.catalogs.forget(name)
	p.reservations.forget(name)
	return err
}

func (s *profiles) delete(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	defer s.forget(cloudName(class))
	name, profile, err := s.of(ctx, class)
	if err != nil || profile == nil {
		return err
	}
	for _, r := range profile.Roles {
		_, err := s.iam.RemoveRoleFromInstanceProfile(ctx,
			&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName})
		if err != nil && code(err) != codeNoEntity {
			return wrap("remove role from instance profile "+name, "iam:RemoveRoleFromInstanceProfile", err)
		}
	}
	_, err = s.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if code(err) == codeNoEntity {
		return nil
	}
	return wrap("delete instance profile "+name, "iam:DeleteInstanceProfile", err)
}

func (s *profiles) forget(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, class)
}
