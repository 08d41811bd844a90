package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
)

// Enrolment is what an administrator decides about a host.
type Enrolment struct {
	Host    string
	PodCIDR string        // "" keeps the host's current one, or chooses the first free one
	TTL     time.Duration // of the token
}

// maxName is the length limit of a host's name: a prefix and the name make up the name of a namespace.
var maxName = validation.DNS1123LabelMaxLength - len(v1alpha1.HostNamespace(""))

// check validates an enrolment.
func (e Enrolment) check() error {
	if wrong := validation.IsDNS1123Label(e.Host); len(wrong) > 0 || len(e.Host) > maxName {
		return fmt.Errorf("host name %q: give at most %d letters, digits and dashes: %s", e.Host, maxName,
			strings.Join(wrong, "; "))
	}
	if e.TTL < 10*time.Minute {
		return fmt.Errorf("token lifetime %s: give at least 10m (--ttl)", e.TTL)
	}
	if e.PodCIDR == "" {
		return nil
	}
	p, err := netip.ParsePrefix(e.PodCIDR)
	if err != nil || !p.Addr().Is4() || p != p.Masked() || p.Bits() < blockBits || p.Bits() > 28 {
		return fmt.Errorf("pod addresses %q: give an IPv4 CIDR with a prefix of /%d to /28, such as 10.202.0.0/%d",
			e.PodCIDR, blockBits, blockBits)
	}
	return nil
}

// Enrol registers a host with a cluster, or issues another token for a registered host. It returns the token with
// which the host joins: once, within the TTL. An earlier unused token becomes invalid.
func Enrol(ctx context.Context, cfg *rest.Config, e Enrolment) (string, error) {
	if err := e.check(); err != nil {
		return "", err
	}
	c, err := client.New(cfg, client.Options{Scheme: kinds()})
	if err != nil {
		return "", err
	}
	namespace := rbac.HostNamespace(e.Host)
	if err := c.Create(ctx, namespace.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("create namespace %s: %w", namespace.Name, err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return "", fmt.Errorf("read namespace %s: %w", namespace.Name, err)
	}
	pods, err := e.register(ctx, c)
	if err != nil {
		return "", err
	}
	for _, o := range rbac.HostObjects(e.Host, namespace.UID, nodesIn(pods)) {
		if err := put(ctx, c, o); err != nil {
			return "", err
		}
	}
	return e.token(ctx, cfg)
}

// nodesIn returns the names that the Nodes of microVMs with these addresses may have.
func nodesIn(pods netip.Prefix) []string {
	var names []string
	for a := pods.Masked().Addr(); pods.Contains(a); a = a.Next() {
		names = append(names, microvm.JoinedNodeName(a))
	}
	return names
}

// put creates an object, or updates the existing one.
func put(ctx context.Context, c client.Client, o client.Object) error {
	err := c.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		have, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return err
		}
		if err = c.Get(ctx, client.ObjectKeyFromObject(o), have); err == nil {
			o.SetResourceVersion(have.GetResourceVersion())
			err = c.Update(ctx, o)
		}
	}
	if err != nil {
		return fmt.Errorf("create %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// register creates the MicroVMHost if there is none, and returns the addresses of its pods, which no other host uses.
// Of two hosts that are registered at the same time with the same addresses, one at least sees the other, withdraws and
// chooses again.
func (e Enrolment) register(ctx context.Context, c client.Client) (netip.Prefix, error) {
	for {
		own, taken, err := e.hosts(ctx, c)
		if err != nil || own.IsValid() {
			return own, err
		}
		block, err := e.block(taken)
		if err != nil {
			return block, err
		}
		host := &v1alpha1.MicroVMHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.HostNamespace(e.Host), Name: e.Host},
			Spec:       v1alpha1.MicroVMHostSpec{PodCIDR: block.String()},
		}
		if err := c.Create(ctx, host); err != nil {
			return block, fmt.Errorf("create MicroVMHost %s: %w", e.Host, err)
		}
		_, taken, err = e.hosts(ctx, c)
		if err == nil && !slices.ContainsFunc(taken, block.Overlaps) {
			return block, nil
		}
		if failed := c.Delete(ctx, host); failed != nil {
			return block, fmt.Errorf("delete MicroVMHost %s, whose pod addresses %s another host may have: %w", e.Host, block,
				errors.Join(err, failed))
		}
		if err != nil {
			return block, err
		}
		if err := clock.Sleep(ctx, clock.Real{}, rand.N(maxWithdrawal)); err != nil {
			return block, err
		}
	}
}

// maxWithdrawal is the longest pause before a host that has withdrawn chooses addresses again. It is random: two hosts
// that withdraw do not meet again.
const maxWithdrawal = 2 * time.Second

// hosts returns the pod addresses of the host, the zero prefix if it is not registered, and those of all others.
func (e Enrolment) hosts(ctx context.Context, c client.Client) (own netip.Prefix, others []netip.Prefix, err error) {
	var all v1alpha1.MicroVMHostList
	if err := c.List(ctx, &all); err != nil {
		return own, nil, fmt.Errorf("list MicroVMHosts: %w; install the definitions: nodeless crds | kubectl apply "+
			"--server-side -f -", err)
	}
	for _, h := range all.Items {
		p, err := netip.ParsePrefix(h.Spec.PodCIDR)
		switch {
		case h.Namespace == v1alpha1.HostNamespace(e.Host) && h.Name == e.Host:
			if h.Annotations[v1alpha1.AnnotationOwnHost] == "true" {
				return own, nil, fmt.Errorf("%s is the name of the machine on which the controller runs, which is already a "+
					"host; choose another name", e.Host)
			}
			if e.PodCIDR != "" && e.PodCIDR != h.Spec.PodCIDR {
				return own, nil, fmt.Errorf("host %s already has the pod addresses %s; to change them, delete namespace %s and "+
					"register the host again", e.Host, h.Spec.PodCIDR, h.Namespace)
			}
			if err != nil {
				return own, nil, err
			}
			own = p
		case err == nil:
			others = append(others, p)
		}
	}
	return own, others, nil
}

// blockBits is the prefix length of a host's addresses: a block of 4,096 within 10.202.0.0 to 10.249.255.255, as for
// "nodeless up".
const blockBits = 20

// block returns the requested block, or the first that overlaps none of the taken ones.
func (e Enrolment) block(taken []netip.Prefix) (netip.Prefix, error) {
	overlaps := func(p netip.Prefix) bool { return slices.ContainsFunc(taken, p.Overlaps) }
	if e.PodCIDR != "" {
		p, err := netip.ParsePrefix(e.PodCIDR)
		if err == nil && overlaps(p) {
			err = fmt.Errorf("pod addresses %s overlap those of another host", p)
		}
		return p, err
	}
	for n := range 48 * 16 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(202 + n/16), byte(n % 16 * 16), 0}), blockBits)
		if !overlaps(p) {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("all pod addresses of the default range are assigned to hosts; choose others " +
		"with --pod-cidr")
}

// token returns a single-use token: it is bound to a Secret that the host deletes when it joins.
func (e Enrolment) token(ctx context.Context, cfg *rest.Config) (string, error) {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	in := v1alpha1.HostNamespace(e.Host)
	secrets := kube.CoreV1().Secrets(in)
	if err := secrets.Delete(ctx, rbac.HostJoin, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("revoke the last token of host %s: %w", e.Host, err)
	}
	secret, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: rbac.HostJoin}},
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create Secret %s/%s: %w", in, rbac.HostJoin, err)
	}
	got, err := kube.CoreV1().ServiceAccounts(in).CreateToken(ctx, rbac.HostAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To(int64(e.TTL / time.Second)),
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of host %s: %w", e.Host, err)
	}
	return got.Status.Token, nil
}
