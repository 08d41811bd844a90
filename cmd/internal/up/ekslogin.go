//go:build !noplane

package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
	"github.com/nodeless/nodeless/region/ekstoken"
	"github.com/nodeless/nodeless/region/incluster"
)

// eksLogin authenticates tokens of `aws eks get-token` to the embedded control plane: those of the administrator, and
// of the IAM users and roles that the ConfigMap aws-auth names.
type eksLogin struct {
	administrator awssdk.Credentials
	open          atomic.Pointer[openRegion] // nil until the region has started
}

// openRegion maps keys to their owners, and these to users of the cluster.
type openRegion struct {
	keys awsapi.Keys
	eks  *incluster.Cluster
}

// opened starts to accept the owners of keys that the region knows.
func (l *eksLogin) opened(r *region.Region, eks *incluster.Cluster) {
	l.open.Store(&openRegion{awsapi.Keys{Region: r, Administrator: l.administrator, Now: time.Now}, eks})
}

// AuthenticateToken implements authenticator.Token.
func (l *eksLogin) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if !strings.HasPrefix(token, ekstoken.Prefix) {
		return nil, false, nil
	}
	r := l.open.Load()
	if r == nil {
		return nil, false, errors.New("token of AWS: the region has not started")
	}
	who, err := ekstoken.Caller(ctx, r.keys, localcluster.EKSName, token)
	if err != nil {
		return nil, false, fmt.Errorf("token of AWS: %w", err)
	}
	u, err := r.eks.User(ctx, who)
	if err != nil {
		return nil, false, fmt.Errorf("token of AWS: %w", err)
	}
	return &authenticator.Response{User: u}, true, nil
}
