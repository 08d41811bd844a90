package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/cloud"
)

// verdict is the result of one step of Resolve: a condition of the class.
type verdict struct {
	condition string
	reason    string // "" = the condition is true
	message   string
}

func ready(condition string) verdict { return verdict{condition: condition} }

func unready(condition, reason, format string, args ...any) verdict {
	return verdict{condition, reason, fmt.Sprintf(format, args...)}
}

// Resolve fills the status of a class (subnets, security groups, images, instance profile, capacity reservations) and
// its conditions. class must be the caller's own copy. A problem that the user must fix becomes a condition that is
// False and names the field and the remedy. An error is returned only for temporary failures; it leaves the condition
// of its step unchanged.
func (p *Provider) Resolve(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	if isNodeGroup(class) {
		return p.groups.resolve(ctx, class)
	}
	steps := []struct {
		condition, field string
		do               func(context.Context, *ec2v1.EC2NodeClass) (verdict, error)
	}{
		{ec2v1.ConditionTypeValidationSucceeded, "spec", p.resolveSpec},
		{ec2v1.ConditionTypeSubnetsReady, "spec.subnetSelectorTerms", p.network.resolveSubnets},
		{ec2v1.ConditionTypeSecurityGroupsReady, "spec.securityGroupSelectorTerms", p.network.resolveSecurityGroups},
		{ec2v1.ConditionTypeAMIsReady, "spec.amiSelectorTerms", p.images.resolve},
		{ec2v1.ConditionTypeInstanceProfileReady, "spec.role", p.profiles.resolve},
		{ec2v1.ConditionTypePlacementGroupReady, "spec.placementGroupSelector", p.placements.resolve},
		{ec2v1.ConditionTypeCapacityReservationsReady, "spec.capacityReservationSelectorTerms", p.reservations.resolve},
	}
	conditions := class.StatusConditions()
	var failed []error
	for _, step := range steps {
		v, err := step.do(ctx, class)
		switch {
		case errors.Is(err, cloud.ErrUnauthorized):
			v = unready(step.condition, "Unauthorized", "%s: %v", step.field, err)
		case err != nil:
			failed = append(failed, fmt.Errorf("resolve %s, %s: %w", title(class), step.field, err))
			continue
		}
		if v.reason == "" {
			conditions.SetTrue(step.condition)
		} else {
			conditions.SetFalse(step.condition, v.reason, v.message)
		}
	}
	return errors.Join(failed...)
}

func resolveValidation(_ context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	if problems := validate(class); len(problems) > 0 {
		return unready(ec2v1.ConditionTypeValidationSucceeded, "ValidationFailed", "%s", strings.Join(problems, "; ")), nil
	}
	return ready(ec2v1.ConditionTypeValidationSucceeded), nil
}

// tagFilters turns the tags of a selector term into EC2 filters; the value * matches the key alone.
func tagFilters(tags map[string]string) []ec2types.Filter {
	var out []ec2types.Filter
	for _, k := range sortedKeys(tags) {
		if v := tags[k]; v == "*" {
			out = append(out, filter("tag-key", k))
		} else {
			out = append(out, filter("tag:"+k, v))
		}
	}
	return out
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: awssdk.String(name), Values: values}
}

// Preview fills in the subnets, security groups and images to which a class would resolve. It writes nothing, neither
// to AWS nor to a cluster. It fails if a call to AWS fails, and leaves what it could not read as it was. class must
// be the caller's own copy.
func (p *Provider) Preview(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	for _, step := range []func(context.Context, *ec2v1.EC2NodeClass) (verdict, error){
		resolveValidation, p.placements.resolve, p.network.resolveSubnets, p.network.resolveSecurityGroups, p.images.resolve,
	} {
		v, err := step(ctx, class)
		switch {
		case err != nil:
			return fmt.Errorf("preview of %s: %w", title(class), err)
		case v.reason != "":
			class.StatusConditions().SetFalse(v.condition, v.reason, v.message)
		default:
			setTrue(class, v.condition)
		}
	}
	if !slices.ContainsFunc(class.Status.Conditions, func(c status.Condition) bool {
		return c.Status != metav1.ConditionTrue && c.Type != status.ConditionReady &&
			c.Type != ec2v1.ConditionTypeCapacityReservationsReady
	}) {
		setTrue(class, status.ConditionReady)
	}
	return nil
}

// setTrue makes a false condition true. StatusConditions() would make the other conditions unknown, since they belong
// to the class before its change.
func setTrue(class *ec2v1.EC2NodeClass, condition string) {
	for i := range class.Status.Conditions {
		if c := &class.Status.Conditions[i]; c.Type == condition && c.Status == metav1.ConditionFalse {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, condition, ""
		}
	}
}
