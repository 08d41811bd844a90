package iampolicy

// ControllerTrust returns who may assume the controller's role: EKS Pod Identity and, with an issuer, the service
// account's own token (IRSA). EKS user guide, "EKS Pod Identity role" and "Assign IAM roles to Kubernetes service
// accounts".
func (s Scope) ControllerTrust() Document {
	d := document(Statement{
		Sid: "PodIdentity", Effect: "Allow", Principal: map[string]string{"Service": "pods.eks.amazonaws.com"},
		Action: []string{"sts:AssumeRole", "sts:TagSession"},
	})
	if s.OIDCIssuer != "" {
		d.Statement = append(d.Statement, Statement{
			Sid: "IRSA", Effect: "Allow", Action: []string{"sts:AssumeRoleWithWebIdentity"},
			Principal: map[string]string{
				"Federated": "arn:" + s.Partition + ":iam::" + s.Account + ":oidc-provider/" + s.OIDCIssuer,
			},
			Condition: Conditions{}.
				with("StringEquals", s.OIDCIssuer+":aud", "sts.amazonaws.com").
				with("StringEquals", s.OIDCIssuer+":sub", "system:serviceaccount:"+s.Namespace+":"+s.ServiceAccount),
		})
	}
	return d
}

// NodeTrust returns who may assume the role of nodes: EC2.
func (s Scope) NodeTrust() Document {
	return document(Statement{
		Sid: "Nodes", Effect: "Allow", Principal: map[string]string{"Service": s.service("ec2")},
		Action: []string{"sts:AssumeRole"},
	})
}

// NodePolicies returns the managed policies of the role of nodes (EKS user guide, "Amazon EKS node IAM role", plus
// the policy of Systems Manager, as in Karpenter's template).
func (s Scope) NodePolicies() []string {
	var out []string
	for _, name := range []string{
		"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly",
		"AmazonSSMManagedInstanceCore",
	} {
		out = append(out, "arn:"+s.Partition+":iam::aws:policy/"+name)
	}
	return out
}

// QueuePolicy returns the policy of the interruption queue: EventBridge may send to it, and TLS is required.
func (s Scope) QueuePolicy() Document {
	queue := []string{s.arn("sqs", s.Account, s.Queue)}
	return document(
		Statement{
			Sid: "EventBridge", Effect: "Allow", Action: []string{"sqs:SendMessage"}, Resource: queue,
			Principal: map[string]string{"Service": "events.amazonaws.com"},
		},
		Statement{
			Sid: "DenyWithoutTLS", Effect: "Deny", Action: []string{"sqs:*"}, Resource: queue,
			Principal: map[string]string{"AWS": "*"},
			Condition: Conditions{}.with("Bool", "aws:SecureTransport", "false"),
		},
	)
}

// Rule is a rule of EventBridge that sends events to the interruption queue.
type Rule struct {
	Name    string       `json:"name"`
	Pattern EventPattern `json:"pattern"`
}

// EventPattern selects events by source and type.
type EventPattern struct {
	Source     []string `json:"source"`
	DetailType []string `json:"detail-type"`
}

// Rules returns the rules that feed the queue: the events that the controller acts on.
func (s Scope) Rules() []Rule {
	var out []Rule
	for _, r := range []struct{ name, source, kind string }{
		{"ScheduledChange", "aws.health", "AWS Health Event"},
		{"SpotInterruption", "aws.ec2", "EC2 Spot Instance Interruption Warning"},
		{"Rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"},
		{"InstanceState", "aws.ec2", "EC2 Instance State-change Notification"},
		{"ReservationInterruption", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"},
	} {
		out = append(out, Rule{
			Name: r.name, Pattern: EventPattern{Source: []string{r.source}, DetailType: []string{r.kind}},
		})
	}
	return out
}
