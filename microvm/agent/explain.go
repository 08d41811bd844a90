package agent

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Explain says what a person can do about an error of the API server at an address.
func Explain(err error, server, host string, now time.Time) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var network net.Error
	again := fmt.Sprintf("make another one with \"nodeless host token %s\"", host)
	switch {
	case err == nil:
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept the token: it has expired, was used before or has been revoked; %s: %w", server, again, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the host lacks rights; give them with \"nodeless host token %s\": %w", host, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster knows no host %s (any more); %s: %w", host, again, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is not of the authority that was given (--ca-file, or the file of --join): it is another cluster, or somebody in between: %w", server, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate of %s is not valid now; this machine's clock says %s, see whether that is right: %w", server, now.UTC().Format(time.RFC3339), err)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is for other names; give --server one of them: %w", server, err)
	case errors.As(err, &network):
		return fmt.Errorf("%s cannot be reached from this machine: %w", server, err)
	}
	return err
}
