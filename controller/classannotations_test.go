package controller

import (
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/status"
)

// hashing is a cloud whose hash of a class is its AMI family.
type hashing struct{ cloud.Provider }

func (hashing) ClassHash(class *ec2v1.EC2NodeClass) string { return *class.Spec.AMIFamily }

// Nodeless writes the hash of a class a moment after an edit. An instance launched in between has the new spec: with
// the old hash it would be replaced for nothing.
func TestALaunchCarriesTheHashOfTheSpecThoughTheClassHasAnOlderOne(t *testing.T) {
	key, version := ec2v1.AnnotationEC2NodeClassHash, ec2v1.AnnotationEC2NodeClassHashVersion
	for name, c := range map[string]struct{ family, written, want, wantVersion string }{
		"the class has just been edited":       {"new", "old", "new", ec2v1.EC2NodeClassHashVersion},
		"the class is invalid and has no hash": {"", "old", "old", "v0"},
		"nothing has been written yet":         {"new", "", "", ""},
	} {
		class := &ec2v1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		class.Spec.AMIFamily = &c.family
		if c.written != "" {
			class.Annotations = map[string]string{key: c.written, version: "v0"}
		}
		reader := fake.NewClientBuilder().WithScheme(scheme()).WithObjects(class).Build()
		claim := &karpv1.NodeClaim{}
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{
			Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: class.Name,
		}
		got := classAnnotations(status.NewClasses(t.Context(), reader), hashing{})(claim)
		if got[key] != c.want || got[version] != c.wantVersion {
			t.Errorf("%s: %v, want %s of version %s", name, got, c.want, c.wantVersion)
		}
	}
}
