package aws

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/catalog"
)

// validate returns the problems of a class, each with its field. The API server rejects most of them already, but
// none may reach a launch, however the object came into the cluster.
func validate(class *ec2v1.EC2NodeClass) []string {
	if isNodeGroup(class) {
		return nil // the conditions of a group report its problems
	}
	images := validateImages(class)
	bad := slices.Concat(images, validateIdentity(class), validateKubelet(class.Spec.Kubelet), validateDisks(class))
	if len(images) == 0 { // else the family is not known
		bad = append(bad, validateUserData(class)...)
	}
	return bad
}

// validateUserData reports user data from which none for an instance can be made.
func validateUserData(class *ec2v1.EC2NodeClass) []string {
	if _, err := (bootConfig{options: &Options{}, class: class, imageFamily: class.AMIFamily()}).userData(); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func validateIdentity(class *ec2v1.EC2NodeClass) []string {
	var bad []string
	profile := class.Spec.InstanceProfile
	if (class.Spec.Role == "") == (profile == nil || *profile == "") {
		bad = append(bad, "spec.role, spec.instanceProfile: set exactly one of the two")
	}
	for _, key := range sortedKeys(class.Spec.Tags) {
		if key == "" {
			bad = append(bad, "spec.tags: empty tag keys are not allowed")
		}
		for _, pattern := range ec2v1.RestrictedTagPatterns {
			if pattern.MatchString(key) {
				bad = append(bad, fmt.Sprintf("spec.tags[%s]: this tag is set by the controller; remove it", key))
			}
		}
	}
	return bad
}

// imageFamilies maps the families of aliases and of spec.amiFamily, in lower case, to their proper names; "" if a
// family is known but not supported.
var imageFamilies = map[string]string{
	"al2023": ec2v1.AMIFamilyAL2023, "bottlerocket": ec2v1.AMIFamilyBottlerocket, "custom": ec2v1.AMIFamilyCustom,
	"windows2019": ec2v1.AMIFamilyWindows2019, "windows2022": ec2v1.AMIFamilyWindows2022,
	"windows2025": ec2v1.AMIFamilyWindows2025, "al2": "",
}

// aliasFamilies lists the families that have aliases, for error messages.
const aliasFamilies = "al2023, bottlerocket, windows2019, windows2022 or windows2025"

// windowsYear returns the version of Windows Server of an image family; "" if the family is not Windows.
func windowsYear(family string) string {
	year, _ := strings.CutPrefix(family, "Windows")
	if catalog.WindowsBuilds[year] == "" {
		return ""
	}
	return year
}

// noAL2 explains why AL2 is not supported (Amazon EKS User Guide, "Guide to EKS AL2 & AL2-Accelerated AMIs transition
// features").
const noAL2 = "EKS has no Amazon Linux 2 images for Kubernetes 1.33 and later"

// parseAlias splits family@version. It replaces EC2NodeClass.Alias, which exits the process if an alias is malformed.
func parseAlias(alias string) (family, version string, err error) {
	name, version, ok := strings.Cut(alias, "@")
	if !ok || version == "" || strings.Contains(version, "@") {
		return "", "", fmt.Errorf("alias %q must have the form family@version, such as al2023@latest", alias)
	}
	family, known := imageFamilies[name]
	switch {
	case !known || name == "custom":
		return "", "", fmt.Errorf("alias %q: unknown family %q; use %s", alias, name, aliasFamilies)
	case name == "al2":
		return "", "", fmt.Errorf("alias %q: %s; write alias: al2023@latest", alias, noAL2)
	case windowsYear(family) != "" && version != ec2v1.AliasVersionLatest:
		return "", "", fmt.Errorf("alias %q: windows families may only specify version 'latest'; write alias: %s@latest, "+
			"or name an image by its id", alias, name)
	}
	return family, version, nil
}

func validateImages(class *ec2v1.EC2NodeClass) []string {
	var bad []string
	aliases := 0
	for i, t := range class.Spec.AMISelectorTerms {
		field := fmt.Sprintf("spec.amiSelectorTerms[%d]", i)
		switch {
		case t.Alias != "":
			aliases++
			if isFIPS(class) {
				continue
			}
			if _, _, err := parseAlias(t.Alias); err != nil {
				bad = append(bad, field+": "+err.Error())
			}
		case len(t.Tags) == 0 && t.ID == "" && t.Name == "" && t.SSMParameter == "":
			bad = append(bad, field+": give one of alias, id, name, tags, ssmParameter")
		}
	}
	switch {
	case len(class.Spec.AMISelectorTerms) == 0:
		bad = append(bad, "spec.amiSelectorTerms: must not be empty; use [{alias: al2023@latest}]")
	case aliases > 0 && len(class.Spec.AMISelectorTerms) > 1:
		bad = append(bad, "spec.amiSelectorTerms: an alias must be the only term")
	}
	if f := class.Spec.AMIFamily; f != nil {
		if *f == ec2v1.AMIFamilyAL2 {
			bad = append(bad, "spec.amiFamily: "+noAL2+
				"; write amiFamily: AL2023, and in spec.amiSelectorTerms alias: al2023@latest")
		} else if name, known := imageFamilies[strings.ToLower(*f)]; !known || name == "" || name != *f {
			bad = append(bad, fmt.Sprintf("spec.amiFamily: %q is not supported; use AL2023, Bottlerocket, Windows2019, "+
				"Windows2022, Windows2025 or Custom", *f))
		}
	} else if aliases == 0 && len(class.Spec.AMISelectorTerms) > 0 {
		bad = append(bad, "spec.amiFamily: must be set when spec.amiSelectorTerms has no alias")
	}
	return bad
}

func validateKubelet(k *ec2v1.KubeletConfiguration) []string {
	if k == nil {
		return nil
	}
	var bad []string
	for _, m := range []struct {
		field string
		set   map[string]string
	}{{"kubeReserved", k.KubeReserved}, {"systemReserved", k.SystemReserved}} {
		for _, name := range sortedKeys(m.set) {
			if q, err := resource.ParseQuantity(m.set[name]); err != nil || q.Sign() < 0 {
				bad = append(bad, fmt.Sprintf("spec.kubelet.%s[%s]: %q is not an amount", m.field, name, m.set[name]))
			}
		}
	}
	for _, name := range sortedKeys(k.EvictionHard) {
		if _, err := threshold(k.EvictionHard[name]); err != nil {
			bad = append(bad, fmt.Sprintf("spec.kubelet.evictionHard[%s]: %v", name, err))
		}
	}
	if k.MaxPods != nil && *k.MaxPods < 0 {
		bad = append(bad, "spec.kubelet.maxPods: must not be negative")
	}
	if k.PodsPerCore != nil && *k.PodsPerCore < 0 {
		bad = append(bad, "spec.kubelet.podsPerCore: must not be negative")
	}
	return bad
}

// kmsKey matches the identifiers of a key: its ID, its alias, or the ARN of either (KMS developer guide, "Key
// identifiers").
var kmsKey = regexp.MustCompile(`^(arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:(key/)?)?` +
	`([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|mrk-[0-9a-f]{32}|alias/[a-zA-Z0-9/_-]+)$`)

func validateDisks(class *ec2v1.EC2NodeClass) []string {
	var bad []string
	roots := 0
	for i, d := range class.Spec.BlockDeviceMappings {
		if d == nil || d.EBS == nil {
			bad = append(bad, fmt.Sprintf("spec.blockDeviceMappings[%d].ebs: must be set", i))
			continue
		}
		if d.DeviceName == nil || *d.DeviceName == "" {
			bad = append(bad, fmt.Sprintf("spec.blockDeviceMappings[%d].deviceName: must be set, such as /dev/xvda", i))
		}
		if d.EBS.VolumeSize == nil && d.EBS.SnapshotID == nil {
			bad = append(bad, fmt.Sprintf("spec.blockDeviceMappings[%d].ebs: set volumeSize or snapshotID", i))
		}
		if key := d.EBS.KMSKeyID; key != nil && !kmsKey.MatchString(*key) {
			bad = append(bad, fmt.Sprintf("spec.blockDeviceMappings[%d].ebs.kmsKeyID: %q is no KMS key; "+
				"give a key ID, an alias such as alias/aws/ebs, or the ARN of either", i, *key))
		}
		if d.RootVolume {
			roots++
		}
	}
	if roots > 1 {
		bad = append(bad, "spec.blockDeviceMappings: only one may have rootVolume: true")
	}
	return bad
}

// threshold parses the value of an eviction signal: an amount, or a percentage, where 100 % means no threshold, as in
// the kubelet's configuration (kubelet-config.v1beta1).
func threshold(value string) (catalog.Threshold, error) {
	if percent, ok := strings.CutSuffix(value, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return catalog.Threshold{}, fmt.Errorf("%q is not a percentage", value)
		}
		return catalog.Threshold{Percent: p}, nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return catalog.Threshold{}, fmt.Errorf("%q is neither an amount nor a percentage", value)
	}
	return catalog.Threshold{Bytes: q.Value()}, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
