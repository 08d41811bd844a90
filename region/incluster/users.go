package incluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

// mapping is an entry of aws-auth's lists mapRoles and mapUsers.
type mapping struct {
	RoleARN  string   `json:"rolearn"`
	UserARN  string   `json:"userarn"`
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// User returns the Kubernetes user of an AWS caller: the account's administrator, who created the cluster, is in
// system:masters; IAM users and roles are mapped by the ConfigMap aws-auth (EKS User Guide, "Grant IAM users access
// to Kubernetes with a ConfigMap").
func (c *Cluster) User(ctx context.Context, who awsapi.Caller) (user.Info, error) {
	if who.Principal == nil {
		return c.info(who, who.ARN, mapping{Username: who.ARN, Groups: []string{user.SystemPrivilegedGroup}}), nil
	}
	auth, err := c.clientset.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "aws-auth", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ConfigMap kube-system/aws-auth: %w", err)
	}
	named, list := *who.Principal, "mapUsers"
	if named.Kind == region.RolePrincipal {
		named.Path, list = "/", mapRoles // rolearn has no path
	}
	arn := named.ARN()
	var entries []mapping
	if err := yaml.Unmarshal([]byte(auth.Data[list]), &entries); err != nil {
		return nil, fmt.Errorf("ConfigMap kube-system/aws-auth: %s: %w", list, err)
	}
	for _, m := range slices.Backward(entries) { // the last entry wins
		if strings.EqualFold(m.RoleARN+m.UserARN, arn) {
			return c.info(who, arn, m), nil
		}
	}
	return nil, fmt.Errorf("%s is in no entry of %s in the ConfigMap kube-system/aws-auth", arn, list)
}

// info returns the user of a mapped caller, with the attributes that aws-iam-authenticator sets (its README, "Full
// Configuration Format").
func (c *Cluster) info(who awsapi.Caller, canonical string, m mapping) *user.DefaultInfo {
	dns := ""
	if i, ok := c.region.Instance(who.Session); ok {
		dns = i.PrivateDNS
	}
	fill := strings.NewReplacer("{{AccountID}}", region.AccountID, "{{AccessKeyID}}", who.AccessKeyID,
		"{{SessionName}}", strings.ReplaceAll(who.Session, "@", "-"), "{{SessionNameRaw}}", who.Session,
		"{{EC2PrivateDNSName}}", dns)
	groups := make([]string, len(m.Groups))
	for i, g := range m.Groups {
		groups[i] = fill.Replace(g)
	}
	id, _, _ := strings.Cut(who.UserID, ":")
	return &user.DefaultInfo{
		Name: fill.Replace(m.Username), UID: "aws-iam-authenticator:" + region.AccountID + ":" + id, Groups: groups,
		Extra: map[string][]string{
			"accessKeyId": {who.AccessKeyID}, "arn": {who.ARN}, "canonicalArn": {canonical}, "principalId": {id},
			"sessionName": {who.Session},
		},
	}
}
