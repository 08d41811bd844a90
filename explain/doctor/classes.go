package doctor

import (
	"context"
	"fmt"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
)

// classes reads the EC2NodeClasses and, if AWS is checked, resolves each of them now.
func (c Cluster) classes(ctx context.Context) ([]ec2v1.EC2NodeClass, error) {
	var list ec2v1.EC2NodeClassList
	if err := c.Client.List(ctx, &list); err != nil {
		return nil, err
	}
	if c.AWS != nil {
		for i := range list.Items {
			if err := c.AWS.preview(ctx, &list.Items[i], c.Version); err != nil {
				return nil, err
			}
		}
	}
	return list.Items, nil
}

// otherClasses returns the node classes of other kinds that NodePools may refer to, such as "NodeGroup workers". A
// cluster need not serve these kinds.
func (c Cluster) otherClasses(ctx context.Context) (names []string, err error) {
	var auto eksv1.NodeClassList
	if err := c.Client.List(ctx, &auto); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for i := range auto.Items {
		names = append(names, "NodeClass "+auto.Items[i].Name)
	}
	var groups v1alpha1.NodeGroupList
	if err := c.Client.List(ctx, &groups); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for i := range groups.Items {
		names = append(names, "NodeGroup "+groups.Items[i].Name)
	}
	return names, nil
}

// noClasses finds that there is no EC2NodeClass, which is a fault unless NodePools use node classes of other kinds.
func (c Cluster) noClasses(ctx context.Context) Finding {
	const check = "node classes"
	others, err := c.otherClasses(ctx)
	switch {
	case err != nil:
		return unknown(check, err)
	case len(others) > 0:
		return fine(check, "there is no EC2NodeClass, but %s", some(others))
	}
	return Finding{
		Check: check, Status: Warning, Says: "there is no EC2NodeClass",
		Remedy: "create one, and a NodePool for it: docs/how-do-i-run-it-on-my-cluster.md",
	}
}

// nodeClasses finds the classes that cannot launch nodes: their selectors match no subnets, security groups or
// images, by tags or otherwise.
func nodeClasses(classes []ec2v1.EC2NodeClass) Finding {
	const check = "node classes"
	var broken, unseen, ready []string
	for _, class := range classes {
		why, looked := "", len(class.Status.Subnets) > 0 // resolved by a controller or, just now, by AWS
		for _, condition := range class.Status.Conditions {
			switch {
			case condition.Type == status.ConditionReady || condition.Type == ec2v1.ConditionTypeCapacityReservationsReady:
			case condition.Status == "False":
				why += "; " + condition.Message
			case condition.Status == "True":
				looked = true
			}
		}
		switch {
		case why != "":
			broken = append(broken, class.Name+": "+why[2:])
		case !looked:
			unseen = append(unseen, class.Name)
		default:
			ready = append(ready, fmt.Sprintf("%s (subnets: %d, security groups: %d, images: %d)", class.Name,
				len(class.Status.Subnets), len(class.Status.SecurityGroups), len(class.Status.AMIs)))
		}
	}
	switch {
	case len(broken) > 0:
		return failed(check, "correct the selectors, or tag what they are to match", "%s", some(broken))
	case len(unseen) > 0:
		return Finding{
			Check: check, Status: Unknown, Says: "no controller has looked at " + some(unseen),
			Remedy: "ask AWS: nodeless doctor --aws",
		}
	}
	return fine(check, "%s", some(ready))
}

// metadata finds classes whose pods can reach the credentials of their node's role: with a hop limit of 2 or more
// they can (EKS best practices guide, "Restrict access to the instance profile assigned to the worker node").
func metadata(classes []ec2v1.EC2NodeClass) Finding {
	const check = "instance metadata"
	var open []string
	for _, class := range classes {
		o := class.Spec.MetadataOptions
		if o == nil || o.HTTPEndpoint != nil && *o.HTTPEndpoint == "disabled" {
			continue
		}
		if o.HTTPPutResponseHopLimit != nil && *o.HTTPPutResponseHopLimit > 1 {
			open = append(open, fmt.Sprintf("%s (hop limit %d)", class.Name, *o.HTTPPutResponseHopLimit))
		} else if o.HTTPTokens != nil && *o.HTTPTokens == "optional" {
			open = append(open, class.Name+" (tokens are optional)")
		}
	}
	if len(open) > 0 {
		return Finding{
			Check: check, Status: Warning, Says: "pods get the credentials of their node's role: " + some(open),
			Remedy: "spec.metadataOptions: httpPutResponseHopLimit: 1, httpTokens: required",
		}
	}
	return fine(check, "pods do not reach the credentials of their node")
}
