package crds_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/nodeless/nodeless/controller/crds"
	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

func TestEveryKindIsServed(t *testing.T) {
	p := planetest.Start(t) // installs them
	d := discovery.NewDiscoveryClientForConfigOrDie(p.RESTConfig())
	for group, kinds := range map[string]string{
		"karpenter.sh/v1":              "NodePool NodeClaim",
		"karpenter.sh/v1alpha1":        "NodeOverlay",
		"karpenter.k8s.aws/v1":         "EC2NodeClass",
		"autoscaling.x-k8s.io/v1beta1": "CapacityBuffer",
		"nodeless.sh/v1alpha1":         "FargateProfile DecisionLog MicroVMHost MicroVM",
	} {
		planetest.Eventually(t, group, func(context.Context) error {
			_, err := d.ServerResourcesForGroupVersion(group)
			return err
		})
		list, err := d.ServerResourcesForGroupVersion(group)
		if err != nil {
			t.Fatal(err)
		}
		served := ""
		for _, r := range list.APIResources {
			served += r.Kind + " "
		}
		for _, k := range strings.Fields(kinds) {
			if !strings.Contains(served, k) {
				t.Errorf("%s serves %s; want %s", group, served, k)
			}
		}
	}
}

func TestInstallingAgainRepairsAndChangesNothingElse(t *testing.T) {
	p := planetest.Start(t)
	ctx := context.Background()
	c := clientset.NewForConfigOrDie(p.RESTConfig()).ApiextensionsV1().CustomResourceDefinitions()
	const name = "nodepools.karpenter.sh"

	d, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	columns := len(d.Spec.Versions[0].AdditionalPrinterColumns)
	d.Spec.Versions[0].AdditionalPrinterColumns = nil
	metav1.SetMetaDataLabel(&d.ObjectMeta, "theirs", "kept")
	if _, err := c.Update(ctx, d, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	versions := map[int]string{}
	for i := range 2 {
		if err := crds.Install(ctx, p.RESTConfig()); err != nil {
			t.Fatal(err)
		}
		if d, err = c.Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		versions[i] = d.ResourceVersion
	}
	if len(d.Spec.Versions[0].AdditionalPrinterColumns) != columns || d.Labels["theirs"] != "kept" {
		t.Errorf("columns %v, labels %v", d.Spec.Versions[0].AdditionalPrinterColumns, d.Labels)
	}
	if versions[0] != versions[1] {
		t.Errorf("the second time something was written: %v", versions)
	}
}

func TestARefusedDefinitionIsNamed(t *testing.T) {
	p := planetest.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	broken := crds.All()[:1]
	broken[0].Name = "wrong.karpenter.sh"
	if err := crds.Apply(ctx, p.RESTConfig(), broken); err == nil ||
		!strings.Contains(err.Error(), "install CRD wrong.karpenter.sh") {
		t.Errorf("got %v", err)
	}
}
