package iampolicy

import "slices"

// Tags that identify the controller's resources (the provider's tags.go).
const (
	classTag       = "karpenter.k8s.aws/ec2nodeclass"
	clusterNameTag = "eks:eks-cluster-name"
	autoscalerTag  = "k8s.io/cluster-autoscaler/"
	groupTag       = "aws:autoscaling:groupName"
)

func (s Scope) ownedTag() string { return "kubernetes.io/cluster/" + s.Cluster }

// created are the conditions for resources that the call itself tags as the cluster's.
func (s Scope) created() Conditions {
	return Conditions{
		"StringEquals": {
			"aws:RequestTag/" + s.ownedTag():   {"owned"},
			"aws:RequestTag/" + clusterNameTag: {s.Cluster},
		},
		"StringLike": {"aws:RequestTag/" + classTag: {"*"}},
	}
}

// owned are the conditions for resources that are tagged as the cluster's.
func (s Scope) owned() Conditions {
	return Conditions{
		"StringEquals": {"aws:ResourceTag/" + s.ownedTag(): {"owned"}},
		"StringLike":   {"aws:ResourceTag/" + classTag: {"*"}},
	}
}

// with adds a condition to c and returns c.
func (c Conditions) with(operator, key string, values ...string) Conditions {
	if c[operator] == nil {
		c[operator] = map[string][]string{}
	}
	c[operator][key] = values
	return c
}

// Controller returns the controller's policy. The scope must be complete.
func (s Scope) Controller() Document {
	statements := slices.Concat(s.launching(), s.reading(), s.profiles())
	if s.NodeGroups {
		statements = append(statements, s.nodeGroups()...)
	}
	return document(statements...)
}

// launching are the statements for launching and removing instances.
func (s Scope) launching() []Statement {
	launch := []string{"ec2:CreateFleet", "ec2:RunInstances"}
	made := s.ec2("fleet", "instance", "volume", "network-interface", "spot-instances-request", "launch-template")
	return []Statement{
		allow("LaunchWithWhatIsThere", launch, []string{
			s.arn("ec2", "", "image/*"), s.arn("ec2", "", "snapshot/*"),
			// Other accounts may share theirs.
			s.arn("ec2", "*", "capacity-reservation/*"), s.arn("ec2", "*", "placement-group/*"),
			s.arn("ec2", "*", "security-group/*"), s.arn("ec2", "*", "subnet/*"),
		}, nil),
		allow("LaunchFromOwnTemplates", launch, s.ec2("launch-template"), s.owned()),
		allow("CreateWithTags", append(slices.Clone(launch), "ec2:CreateLaunchTemplate"), made, s.created()),
		allow("TagOnCreation", []string{"ec2:CreateTags"}, made, s.created().
			with("StringEquals", "ec2:CreateAction", "RunInstances", "CreateFleet", "CreateLaunchTemplate")),
		allow("DeleteOwn", []string{"ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"},
			s.ec2("instance", "launch-template"), s.owned()),
		allow("PassNodeRole", []string{"iam:PassRole"}, []string{s.role(s.NodeRole)},
			Conditions{}.with("StringEquals", "iam:PassedToService", s.service("ec2"))),
	}
}

// reading are the statements that change nothing. EC2 and the price list define no resources for these actions.
func (s Scope) reading() []Statement {
	return []Statement{
		allow("ReadRegion", []string{
			"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
			"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates",
			"ec2:DescribeNetworkInterfaces", "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups",
			"ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets", "ec2:GetSubnetCidrReservations",
		}, []string{"*"}, Conditions{}.with("StringEquals", "aws:RequestedRegion", s.Region)),
		allow("ReadImageParameters", []string{"ssm:GetParameter"},
			[]string{s.arn("ssm", "", "parameter/aws/service/*")}, nil),
		allow("ReadPrices", []string{"pricing:GetProducts"}, []string{"*"}, nil),
		allow("ReadCluster", []string{"arc-zonal-shift:GetManagedResource", "eks:DescribeCluster"},
			[]string{s.arn("eks", s.Account, "cluster/"+s.Cluster)}, nil),
		allow("ReadInterruptionQueue", []string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"},
			[]string{s.arn("sqs", s.Account, s.Queue)}, nil),
	}
}

// profiles are the statements about the instance profiles of EC2NodeClasses with spec.role.
func (s Scope) profiles() []Statement {
	all := []string{"arn:" + s.Partition + ":iam::" + s.Account + ":instance-profile/*"}
	const region = "topology.kubernetes.io/region"
	created := func() Conditions { return s.created().with("StringEquals", "aws:RequestTag/"+region, s.Region) }
	owned := func(c Conditions) Conditions {
		c.with("StringEquals", "aws:ResourceTag/"+s.ownedTag(), "owned")
		c.with("StringEquals", "aws:ResourceTag/"+region, s.Region)
		return c.with("StringLike", "aws:ResourceTag/"+classTag, "*")
	}
	return []Statement{
		allow("CreateInstanceProfiles", []string{"iam:CreateInstanceProfile"}, all, created()),
		allow("TagInstanceProfiles", []string{"iam:TagInstanceProfile"}, all, owned(created())),
		allow("ChangeOwnInstanceProfiles", []string{
			"iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile",
		}, all, owned(Conditions{})),
		allow("ReadInstanceProfiles", []string{"iam:GetInstanceProfile"}, all, nil),
	}
}

// nodeGroups are the statements about the Auto Scaling groups of NodeGroups: those tagged for Cluster Autoscaler,
// whose documentation requires the same tag.
func (s Scope) nodeGroups() []Statement {
	return []Statement{
		allow("ReadGroups", []string{
			"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeLaunchConfigurations",
			"autoscaling:DescribeScalingActivities", "ec2:DescribeLaunchTemplateVersions",
		}, []string{"*"}, Conditions{}.with("StringEquals", "aws:RequestedRegion", s.Region)),
		allow("ResizeGroups", []string{
			"autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup",
		}, []string{s.arn("autoscaling", s.Account, "autoScalingGroup:*:autoScalingGroupName/*")},
			Conditions{}.with("StringEquals", "aws:ResourceTag/"+autoscalerTag+s.Cluster, "owned")),
		allow("TagInstancesOfGroups", []string{"ec2:CreateTags", "ec2:DeleteTags"}, s.ec2("instance"),
			Conditions{}.with("StringLike", "aws:ResourceTag/"+groupTag, "*").
				with("ForAllValues:StringEquals", "aws:TagKeys", "karpenter.sh/nodeclaim", "karpenter.sh/nodepool",
					"nodeless.sh/nodeclaim-uid", classTag, clusterNameTag)),
	}
}
