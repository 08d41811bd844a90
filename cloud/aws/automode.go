package aws

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// FromNodeClass returns the EC2NodeClass that represents a NodeClass of EKS Auto Mode: the same role, subnets,
// security groups, capacity reservations and tags; Bottlerocket; the ephemeral storage as Bottlerocket's data volume.
// Its kind remains NodeClass, which identifies it wherever else Auto Mode differs. The result shares nothing with the
// object.
func FromNodeClass(n *eksv1.NodeClass) *ec2v1.EC2NodeClass {
	n = n.DeepCopy()
	class := &ec2v1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: eksv1.GroupVersion.String(), Kind: eksv1.Kind},
		ObjectMeta: n.ObjectMeta, Status: n.Status,
		Spec: ec2v1.EC2NodeClassSpec{
			Role: roleName(n.Spec.Role), InstanceProfile: n.Spec.InstanceProfile, Tags: n.Spec.Tags,
			AMISelectorTerms: []ec2v1.AMISelectorTerm{{Alias: "bottlerocket@latest"}},
		},
	}
	for _, t := range n.Spec.SubnetSelectorTerms {
		class.Spec.SubnetSelectorTerms = append(class.Spec.SubnetSelectorTerms,
			ec2v1.SubnetSelectorTerm{Tags: t.Tags, ID: t.ID})
	}
	for _, t := range n.Spec.SecurityGroupSelectorTerms {
		class.Spec.SecurityGroupSelectorTerms = append(class.Spec.SecurityGroupSelectorTerms,
			ec2v1.SecurityGroupSelectorTerm{Tags: t.Tags, ID: t.ID, Name: t.Name})
	}
	for _, t := range n.Spec.CapacityReservationSelectorTerms {
		class.Spec.CapacityReservationSelectorTerms = append(class.Spec.CapacityReservationSelectorTerms,
			ec2v1.CapacityReservationSelectorTerm{ID: t.ID, OwnerID: t.Owner, Tags: t.Tags})
	}
	if group := n.Spec.PlacementGroupSelector; group != nil {
		class.Spec.PlacementGroupSelector = &ec2v1.PlacementGroupSelector{Name: group.Name, ID: group.ID}
	}
	setPodNetwork(class, &n.Spec)
	class.Spec.BlockDeviceMappings = autoDisks(n.Spec.EphemeralStorage)
	network := n.Spec.AdvancedNetworking
	if network == nil {
		network = &eksv1.AdvancedNetworking{}
	}
	class.Spec.AssociatePublicIPAddress = network.AssociatePublicIPAddress
	if network.IPv4PrefixSize != "32" { // see autoPods
		class.Spec.Kubelet = &ec2v1.KubeletConfiguration{MaxPods: awssdk.Int32(catalog.AutoModeMaxPods)}
	}
	security := n.Spec.AdvancedSecurity
	if security == nil {
		security = &eksv1.AdvancedSecurity{}
	}
	if security.FIPS {
		class.Spec.AMISelectorTerms[0].Alias, class.Spec.AMIFamily = fipsAlias, awssdk.String(ec2v1.AMIFamilyBottlerocket)
	}
	if text := autoSettings(network, security, n.Spec.CertificateBundles); text != "" {
		class.Spec.UserData = &text
	}
	return class
}

// fipsAlias names Bottlerocket's newest image with FIPS-validated modules. Karpenter has no such alias: only a class
// that represents a NodeClass may have it.
const fipsAlias = "bottlerocket-fips@latest"

// isFIPS reports whether a class represents a NodeClass whose nodes boot FIPS images.
func isFIPS(class *ec2v1.EC2NodeClass) bool {
	terms := class.Spec.AMISelectorTerms
	return isAuto(class) && len(terms) == 1 && terms[0].Alias == fipsAlias
}

// hasFIPS reports whether EKS Auto Mode has FIPS images in a region: in those of US East, US West, GovCloud (US) and
// Canada (Amazon EKS user guide, "Configure advanced security settings for nodes").
func hasFIPS(region string) bool {
	return slices.ContainsFunc([]string{"us-east-", "us-west-", "us-gov-", "ca-"}, func(prefix string) bool {
		return strings.HasPrefix(region, prefix)
	})
}

// roleName returns the name of a role that may be given with its path or by its ARN, as
// arn:aws:iam::111122223333:role/path/NAME: IAM's calls take the name alone.
func roleName(role string) string { return role[strings.LastIndex(role, "/")+1:] }

// autoDisks returns Bottlerocket's two volumes. The defaults are those of the CRD, for objects that were written
// before it had them.
func autoDisks(s *eksv1.EphemeralStorage) []*ec2v1.BlockDeviceMapping {
	if s == nil {
		s = &eksv1.EphemeralStorage{}
	}
	disks := defaultDisks(ec2v1.AMIFamilyBottlerocket)
	for _, d := range disks {
		d.EBS.KMSKeyID = s.KMSKeyID
	}
	size := resource.MustParse("80Gi")
	data := disks[1].EBS
	data.VolumeSize = cmp.Or(s.Size, &size)
	data.IOPS = cmp.Or(s.IOPS, awssdk.Int64(3000))
	data.Throughput = cmp.Or(s.Throughput, awssdk.Int64(125))
	return disks
}

// autoSettings returns Bottlerocket's settings for a proxy, the kernel's lockdown and certificates (bottlerocket.dev,
// "settings.network", "settings.kernel" and "settings.pki"); "" if there are none.
func autoSettings(network *eksv1.AdvancedNetworking, security *eksv1.AdvancedSecurity,
	bundles []eksv1.CertificateBundle,
) string {
	var out strings.Builder
	if network.HTTPSProxy != "" {
		fmt.Fprintf(&out, "[settings.network]\nhttps-proxy = %q\n", network.HTTPSProxy)
		if len(network.NoProxy) > 0 {
			quoted := make([]string, len(network.NoProxy))
			for i, host := range network.NoProxy {
				quoted[i] = fmt.Sprintf("%q", host)
			}
			fmt.Fprintf(&out, "no-proxy = [%s]\n", strings.Join(quoted, ", "))
		}
	}
	if mode := strings.ToLower(security.KernelLockdown); mode != "" {
		fmt.Fprintf(&out, "\n[settings.kernel]\nlockdown = %q\n", mode)
	}
	for _, b := range bundles {
		data := base64.StdEncoding.EncodeToString(b.Data)
		fmt.Fprintf(&out, "\n[settings.pki.%s]\ndata = %q\ntrusted = true\n", b.Name, data)
	}
	return strings.TrimSpace(out.String())
}

// isAuto reports whether a class represents a NodeClass of EKS Auto Mode.
func isAuto(class *ec2v1.EC2NodeClass) bool {
	return class.Kind == eksv1.Kind && strings.HasPrefix(class.APIVersion, eksv1.GroupVersion.Group+"/")
}

// autoPods returns the maximum number of pods on an Auto Mode node: as many as its interfaces, except reservedENIs,
// have addresses for, up to 110.
func autoPods(t *catalog.Type, reservedENIs int, prefixes bool) int64 {
	return min(catalog.MaxPods(t, reservedENIs, prefixes), catalog.AutoModeMaxPods)
}

// autoKeys returns typeKeys by their names in Auto Mode.
func autoKeys() map[string]bool {
	out := map[string]bool{eksv1.LabelComputeType: true}
	for key := range typeKeys {
		out[eksv1.Label(key)] = true
	}
	return out
}

// autoLabels returns the labels of a type by their names in Auto Mode, and the label of Auto Mode itself.
func autoLabels(labels map[string]string) map[string]string {
	out := map[string]string{eksv1.LabelComputeType: eksv1.ComputeTypeAuto}
	for key, value := range labels {
		out[eksv1.Label(key)] = value
	}
	return out
}

// autoFamilies are the instance families that EKS Auto Mode launches (Amazon EKS user guide, "Learn about Amazon EKS
// Auto Mode Managed instances", supported instance reference).
var autoFamilies = func() map[string]bool {
	out := map[string]bool{}
	for family := range strings.FieldsSeq(`
		c8id c8i c8i-flex c8gd c8gn c8g c8a c8gb c7a c7g c7gn c7gd c7i c7i-flex c6a c6g c6i c6gn c6id c6in c6gd c5 c5a c5d
		c5ad c5n c4 m8id m8i m8i-flex m8a m8azn m8gn m8gb m8gd m8g m7i m7a m7g m7gd m7i-flex m6a m6i m6in m6g m6idn m6id
		m6gd m5 m5a m5ad m5n m5dn m5d m5zn m4 r8id r8i r8i-flex r8gn r8gb r8gd r8g r8a r7a r7iz r7gd r7i r7g r6a r6i r6id
		r6in r6idn r6g r6gd r5 r5n r5a r5dn r5b r5ad r5d r4 t4g t3 t3a t2 z1d x8aedz x8g x8i x2gd i8ge i7i i8g i7ie i4g i4i
		i3 i3en is4gen d3 d3en im4gn p6-b200 p6-b300 p5 p5e p5en p4d p4de p3dn g7e g6 gr6 g6e g5g g5 g4dn g4ad inf2 inf1
		trn1 trn1n trn2 hpc8a x2iezn x2iedn x2idn`) {
		out[family] = true
	}
	return out
}()

// autoSupports reports whether EKS Auto Mode launches a type: one of its families, with more than one CPU, that is not
// nano, micro or small. A type that is not AWS's is always supported.
func autoSupports(t *ec2types.InstanceTypeInfo) bool {
	name := string(t.InstanceType)
	if _, known := catalog.Lookup(name); !known {
		return true
	}
	family, size, _ := strings.Cut(name, ".")
	return autoFamilies[family] && cpus(t) > 1 && !slices.Contains([]string{"nano", "micro", "small"}, size)
}

// nodeLabels returns the labels of a type's instances with an image of a family: EC2's, those that the options add,
// and those of Windows. They are nil if the image cannot boot on the type: Windows runs on amd64 only.
func (a *account) nodeLabels(t *ec2types.InstanceTypeInfo, family string) map[string]string {
	labels := typeLabels(t, a.o.AWS.Region)
	if a.o.TypeLabels != nil {
		maps.Copy(labels, a.o.TypeLabels(string(t.InstanceType)))
	}
	if year := windowsYear(family); year != "" {
		if labels[model.LabelArch] != "amd64" {
			return nil
		}
		labels[model.LabelOS], labels[corev1.LabelWindowsBuild] = windowsOS, catalog.WindowsBuilds[year]
	}
	return labels
}
