//go:build !noplane

package up

import (
	"context"
	"fmt"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/ekstoken"
)

// eksLogin lets tokens of `aws eks get-token` into the embedded control plane. Their owner is what EKS calls the
// cluster's creator: an administrator, named as aws-iam-authenticator names users.
func eksLogin(keys awssdk.Credentials) authenticator.Token {
	v := ekstoken.Verifier{Cluster: localcluster.EKSName, Credentials: keys, Now: time.Now}
	arn := "arn:aws:iam::" + region.AccountID + ":root"
	response := &authenticator.Response{User: &user.DefaultInfo{
		Name: arn, UID: "aws-iam-authenticator:" + region.AccountID + ":" + region.AccountID,
		Groups: []string{user.SystemPrivilegedGroup},
		Extra: map[string][]string{
			"accessKeyId": {keys.AccessKeyID}, "arn": {arn}, "canonicalArn": {arn}, "principalId": {region.AccountID},
			"sessionName": {""},
		},
	}}
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		if !strings.HasPrefix(token, ekstoken.Prefix) {
			return nil, false, nil
		}
		if err := v.Verify(ctx, token); err != nil {
			return nil, false, fmt.Errorf("token of AWS: %w", err)
		}
		return response, true, nil
	})
}
