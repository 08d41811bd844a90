package iampolicy

import (
	"fmt"
	"regexp"
	"strings"
)

// Scope is the cluster whose controller gets the permissions.
type Scope struct {
	Cluster   string
	Region    string
	Account   string
	Partition string // "" means that of the region
	Queue     string // name of the interruption queue; "" means the cluster's name
	NodeRole  string // name of the role that EC2NodeClasses give to nodes; "" means NodelessNodeRole-CLUSTER
	// ControllerRole is the name of the controller's role; "" means NodelessController-CLUSTER.
	ControllerRole string
	// Namespace and ServiceAccount are the controller's; "" means kube-system and nodeless.
	Namespace, ServiceAccount string
	// OIDCIssuer is the cluster's issuer of service account tokens, for IRSA; "" means Pod Identity alone.
	OIDCIssuer string
	// NodeGroups adds the permissions for Auto Scaling groups.
	NodeGroups bool
}

var (
	clusterName = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`) // EKS API reference, CreateCluster
	regionName  = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]$`)
	accountID   = regexp.MustCompile(`^[0-9]{12}$`)
	queueName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`) // SQS API reference, CreateQueue
	roleName    = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{1,64}$`)
	objectName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
	issuer      = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9/_.-]+)?$`)
)

// longestName is the limit for names of Kubernetes objects; those of IAM and SQS are lower.
const longestName = 253

// Complete returns the scope with its defaults filled in, or an error that names the flag with the invalid value.
func (s Scope) Complete() (Scope, error) {
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&s.Partition, partitionOf(s.Region))
	fill(&s.Queue, s.Cluster)
	fill(&s.NodeRole, "NodelessNodeRole-"+s.Cluster)
	fill(&s.ControllerRole, "NodelessController-"+s.Cluster)
	fill(&s.Namespace, "kube-system")
	fill(&s.ServiceAccount, "nodeless")
	s.OIDCIssuer = strings.TrimSuffix(strings.TrimPrefix(s.OIDCIssuer, "https://"), "/")
	for _, f := range []struct {
		flag, value, want string
		form              *regexp.Regexp
	}{
		{"--cluster-name", s.Cluster, "the name of the EKS cluster", clusterName},
		{"--region", s.Region, "an AWS region, such as us-west-2", regionName},
		{"--account", s.Account, "the 12 digits of the AWS account", accountID},
		{"--partition", s.Partition, "an AWS partition, such as aws or aws-cn", regexp.MustCompile(`^aws(-[a-z]+)*$`)},
		{"--interruption-queue", s.Queue, "the name of an SQS queue (letters, digits, - and _, 80 at most)", queueName},
		{"--node-role", s.NodeRole, "the name of an IAM role (64 characters at most), not its ARN", roleName},
		{"--controller-role", s.ControllerRole, "the name of an IAM role (64 characters at most), not its ARN", roleName},
		{"--service-account", s.Namespace, "namespace/name", objectName},
		{"--service-account", s.ServiceAccount, "namespace/name", objectName},
	} {
		if len(f.value) > longestName || !f.form.MatchString(f.value) {
			return s, fmt.Errorf("%s %q: give %s", f.flag, f.value, f.want)
		}
	}
	if s.OIDCIssuer != "" && !issuer.MatchString(s.OIDCIssuer) {
		return s, fmt.Errorf("--oidc-issuer %q: give the URL of the cluster's issuer (aws eks describe-cluster "+
			"--query cluster.identity.oidc.issuer)", s.OIDCIssuer)
	}
	return s, nil
}

// partitions are the AWS partitions besides aws, by the prefix of their regions
// (github.com/aws/aws-sdk-go-v2/internal/endpoints/awsrulesfn/partitions.json).
var partitions = map[string]string{
	"cn-": "aws-cn", "us-gov-": "aws-us-gov", "eusc-": "aws-eusc",
	"us-iso-": "aws-iso", "us-isob-": "aws-iso-b", "eu-isoe-": "aws-iso-e", "us-isof-": "aws-iso-f",
}

// partitionOf returns the partition of a region.
func partitionOf(region string) string {
	for prefix, partition := range partitions {
		if strings.HasPrefix(region, prefix) {
			return partition
		}
	}
	return "aws"
}

// arn returns an ARN in the region; account is "*" for resources that the policy does not tie to the account.
func (s Scope) arn(service, account, resource string) string {
	return "arn:" + s.Partition + ":" + service + ":" + s.Region + ":" + account + ":" + resource
}

// ec2 returns the ARNs of all of the account's resources of these kinds.
func (s Scope) ec2(kinds ...string) []string {
	var out []string
	for _, kind := range kinds {
		out = append(out, s.arn("ec2", s.Account, kind+"/*"))
	}
	return out
}

func (s Scope) role(name string) string {
	return "arn:" + s.Partition + ":iam::" + s.Account + ":role/" + name
}

// service returns the name of an AWS service as a principal, which is the same in all partitions; only China has a name
// of its own for EC2 (github.com/aws/aws-cdk, pull request 22589).
func (s Scope) service(name string) string {
	if name == "ec2" && s.Partition == "aws-cn" {
		return "ec2.amazonaws.com.cn"
	}
	return name + ".amazonaws.com"
}
