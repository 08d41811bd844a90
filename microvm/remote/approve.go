package remote

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
	"github.com/nodeless/nodeless/microvm"
)

// approve approves or denies the serving certificates that hosts request, until ctx is done. A host may serve the
// kubelet API of its own Nodes at its own address.
func (h *Hosts) approve(ctx context.Context) {
	select { // a controller without hosts may lack the permissions
	case <-h.joined:
	case <-ctx.Done():
		return
	}
	requests := workqueue.New("CertificateSigningRequest", h.o.Clock, h.o.Log)
	list := toolscache.NewListWatchFromClient(h.o.Kube.CertificatesV1().RESTClient(), "certificatesigningrequests", "",
		fields.OneTermEqualSelector("spec.signerName", certificates.KubeletServingSignerName))
	seen := toolscache.NewSharedIndexInformer(list, &certificates.CertificateSigningRequest{}, 0, toolscache.Indexers{})
	add := func(o any) {
		if csr, ok := o.(*certificates.CertificateSigningRequest); ok && requester(csr) != "" &&
			len(csr.Status.Conditions) == 0 {
			requests.Add(csr.Name)
		}
	}
	if _, err := seen.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, o any) { add(o) },
	}); err != nil {
		return // fails only when stopped
	}
	go seen.RunWithContext(ctx)
	requests.Run(ctx, 1, func(ctx context.Context, name string) (time.Duration, error) {
		o, ok, err := seen.GetStore().GetByKey(name)
		if csr, is := o.(*certificates.CertificateSigningRequest); ok && is && err == nil {
			return 0, h.decide(ctx, csr.DeepCopy())
		}
		return 0, err
	})
}

// requester returns the host that made a request, "" if it was not a host.
func requester(csr *certificates.CertificateSigningRequest) string {
	rest, ok := strings.CutPrefix(csr.Spec.Username, "system:serviceaccount:"+v1alpha1.HostNamespace(""))
	name, is := strings.CutSuffix(rest, ":"+rbac.HostAccount)
	if !ok || !is {
		return ""
	}
	return name
}

func (h *Hosts) decide(ctx context.Context, csr *certificates.CertificateSigningRequest) error {
	if len(csr.Status.Conditions) > 0 {
		return nil
	}
	verdict := certificates.CertificateSigningRequestCondition{
		Type: certificates.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodelessPodNode",
		Message: "the node of a pod on host " + requester(csr),
	}
	why, err := h.denial(ctx, csr)
	if err != nil {
		return err
	}
	if why != "" {
		verdict.Type, verdict.Reason, verdict.Message = certificates.CertificateDenied, "NodelessNotItsNode", why
		h.o.Log.Warn("denied a certificate that a microVM host may not have", "host", requester(csr), "request",
			csr.Name, "why", why)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, verdict)
	_, err = h.o.Kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr,
		metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the informer delivers it again
	}
	if err != nil {
		return fmt.Errorf("decide about the certificate request %s: %w; the controller needs the rights that \"nodeless "+
			"rbac --hosts\" prints", csr.Name, err)
	}
	return nil
}

// denial returns why a request is not for a Node of the requesting host, "" if it is.
func (h *Hosts) denial(ctx context.Context, csr *certificates.CertificateSigningRequest) (string, error) {
	name := requester(csr)
	host := h.host(name)
	if host == nil {
		return "there is no such host", nil
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return "the request cannot be read", nil
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "the request cannot be read: " + err.Error(), nil //nolint:nilerr // why it is refused
	}
	node, ok := strings.CutPrefix(request.Subject.CommonName, "system:node:")
	allowed := []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth}
	switch {
	case !ok || !slices.Equal(request.Subject.Organization, []string{"system:nodes"}):
		return "it is not for a Node", nil
	case slices.ContainsFunc(csr.Spec.Usages, func(u certificates.KeyUsage) bool { return !slices.Contains(allowed, u) }):
		return "it is for more than serving", nil
	case !slices.Equal(request.DNSNames, []string{node}) || len(request.EmailAddresses)+len(request.URIs) > 0:
		return "it has other names than the Node's", nil
	}
	address := host.Describe().Address
	if len(request.IPAddresses) != 1 || !address.IsValid() || request.IPAddresses[0].String() != address.String() {
		return fmt.Sprintf("it is for other addresses than the host's, %s", address), nil
	}
	return h.nodeDenial(ctx, name, node, address.String())
}

// nodeDenial returns why a Node is not the host's, or that another Node has the address; "" if neither is so.
func (h *Hosts) nodeDenial(ctx context.Context, host, node, address string) (string, error) {
	var nodes corev1.NodeList
	if err := h.o.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return "", errors.New("the cache ends")
	}
	why := fmt.Sprintf("there is no Node %s on the host", node)
	for i := range nodes.Items {
		n := &nodes.Items[i]
		its := n.Labels[microvm.HostLabel] == host
		if its && n.Name == node {
			why = ""
		}
		if !its && n.Labels[microvm.HostLabel] == "" && slices.ContainsFunc(n.Status.Addresses,
			func(a corev1.NodeAddress) bool { return a.Address == address }) {
			return fmt.Sprintf("the address %s is that of Node %s", address, n.Name), nil
		}
	}
	return why, nil
}
