package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/catalog"
)

// variant is the hardware for which an alias's image is made, or a Windows family, whose image is for any hardware.
type variant string

const (
	standard variant = "standard"
	nvidia   variant = "nvidia"
	neuron   variant = "neuron"
)

// requirements returns the requirements on the instances that can boot an image of the variant.
func (v variant) requirements() []corev1.NodeSelectorRequirement {
	is := func(key string, op corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op}
	}
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	if year := windowsYear(string(v)); year != "" {
		return []corev1.NodeSelectorRequirement{
			in(corev1.LabelOSStable, windowsOS), in(corev1.LabelWindowsBuild, catalog.WindowsBuilds[year]),
		}
	}
	switch v {
	case nvidia:
		return []corev1.NodeSelectorRequirement{is(ec2v1.LabelInstanceGPUCount, corev1.NodeSelectorOpExists)}
	case neuron:
		return []corev1.NodeSelectorRequirement{is(ec2v1.LabelInstanceAcceleratorCount, corev1.NodeSelectorOpExists)}
	}
	return []corev1.NodeSelectorRequirement{
		is(ec2v1.LabelInstanceAcceleratorCount, corev1.NodeSelectorOpDoesNotExist),
		is(ec2v1.LabelInstanceGPUCount, corev1.NodeSelectorOpDoesNotExist),
	}
}

// aliasPath is an SSM parameter of an alias and the variants of its image.
type aliasPath struct {
	name     string
	variants []variant
}

// aliasPaths returns the public SSM parameters of an alias
// (docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html).
func aliasPaths(family, version, kubernetes string) []aliasPath {
	if year := windowsYear(family); year != "" {
		return []aliasPath{{catalog.WindowsImage(year, ec2v1.WindowsCore, kubernetes), []variant{variant(family)}}}
	}
	if family == ec2v1.AMIFamilyBottlerocket {
		return bottlerocketPaths(strings.TrimPrefix(version, "v"), kubernetes, "")
	}
	var out []aliasPath
	for _, arch := range []string{"x86_64", "arm64"} {
		for _, v := range []variant{standard, nvidia, neuron} {
			if v == neuron && arch == "arm64" {
				continue
			}
			name := "recommended"
			if version != ec2v1.AliasVersionLatest {
				name = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, v, kubernetes, version)
			}
			path := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", kubernetes, arch, v,
				name)
			out = append(out, aliasPath{path, []variant{v}})
		}
	}
	return out
}

// bottlerocketPaths returns the parameters of a version of Bottlerocket; those of its FIPS variants end in -fips
// (bottlerocket.dev, "FIPS modules").
func bottlerocketPaths(version, kubernetes, suffix string) []aliasPath {
	var out []aliasPath
	for _, arch := range []string{"x86_64", "arm64"} {
		plain := []variant{standard}
		if arch == "x86_64" {
			plain = append(plain, neuron)
		}
		base := "/aws/service/bottlerocket/aws-k8s-" + kubernetes
		out = append(out, aliasPath{fmt.Sprintf("%s%s/%s/%s/image_id", base, suffix, arch, version), plain},
			aliasPath{fmt.Sprintf("%s-nvidia%s/%s/%s/image_id", base, suffix, arch, version), []variant{nvidia}})
	}
	return out
}

// imageResolver finds the images of classes.
type imageResolver struct {
	*account

	mu          sync.Mutex
	parameters  map[string]cached[string] // of SSM, by name
	version     cached[string]            // of Kubernetes
	readVersion func() (string, error)    // nil = the version does not change
}

func newImageResolver(a *account) *imageResolver {
	return &imageResolver{
		account: a, parameters: map[string]cached[string]{}, version: cached[string]{value: a.o.KubernetesVersion},
	}
}

// FollowVersion makes the images of aliases those of the version of Kubernetes that read returns, which is called at
// most every versionAge. If it fails, the last version counts.
func (p *Provider) FollowVersion(read func() (string, error)) {
	p.images.mu.Lock()
	defer p.images.mu.Unlock()
	p.images.readVersion, p.images.version.at = read, p.now()
}

// kubernetes returns the version of Kubernetes, as major.minor.
func (s *imageResolver) kubernetes() string {
	s.mu.Lock()
	version, read := s.version, s.readVersion
	s.mu.Unlock()
	if read == nil || s.now().Sub(version.at) < versionAge {
		return version.value
	}
	value, err := read()
	if err != nil {
		s.log.Warn("the version of the API server cannot be read; images are those of the last one", "version",
			version.value, "error", err)
		return version.value
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = cached[string]{value, s.now()}
	return value
}

func (s *imageResolver) resolve(ctx context.Context, class *ec2v1.EC2NodeClass) (verdict, error) {
	const condition = ec2v1.ConditionTypeAMIsReady
	if problems := validateImages(class); len(problems) > 0 {
		class.Status.AMIs = nil
		return unready(condition, "AMISelectorInvalid", "%s", strings.Join(problems, "; ")), nil
	}
	if isFIPS(class) && !hasFIPS(s.o.AWS.Region) {
		class.Status.AMIs = nil
		return unready(condition, "FIPSNotAvailable", "spec.advancedSecurity.fips: EKS Auto Mode has FIPS images in the "+
			"regions of US East, US West, GovCloud (US) and Canada, not in %s; remove fips", s.o.AWS.Region), nil
	}
	var found []image
	kubernetes := s.kubernetes()
	for i, term := range class.Spec.AMISelectorTerms {
		images, err := s.termImages(ctx, term, kubernetes)
		if err != nil {
			return verdict{}, err
		}
		if len(images) == 0 && term.Alias != "" {
			class.Status.AMIs = nil
			text := fmt.Sprintf("spec.amiSelectorTerms[%d].alias: %s", i, s.noImage(term.Alias, kubernetes))
			if isAuto(class) { // it has no such field
				text = fmt.Sprintf("no image %s for Kubernetes %s in region %s", term.Alias, kubernetes, s.o.AWS.Region)
			}
			return unready(condition, "AMINotFound", "%s", text), nil
		}
		found = append(found, images...)
	}
	class.Status.AMIs = newest(found)
	if len(class.Status.AMIs) == 0 {
		return unready(condition, "AMINotFound",
			"spec.amiSelectorTerms: no available image in region %s matches; check the terms and the owner",
			s.o.AWS.Region), nil
	}
	return ready(condition), nil
}

// noImage explains why an alias has no image, and what to write instead.
func (s *imageResolver) noImage(alias, kubernetes string) string {
	var major, minor int
	_, _ = fmt.Sscanf(kubernetes, "%d.%d", &major, &minor)
	if strings.HasPrefix(alias, "windows2025@") && major == 1 && minor < firstWindows2025 {
		return fmt.Sprintf("Windows Server 2025 requires EKS version 1.%d or higher, current version: %s; "+
			"use windows2022@latest", firstWindows2025, kubernetes)
	}
	family, _, _ := strings.Cut(alias, "@")
	other := "use al2023@latest or a version that exists"
	if strings.HasPrefix(family, "windows") {
		other = "use another version of Windows Server, or name an image by its id"
	}
	return fmt.Sprintf("no image for %q and Kubernetes %s in region %s; %s", alias, kubernetes, s.o.AWS.Region, other)
}

// firstWindows2025 is the first minor version of Kubernetes for which EKS has images of Windows Server 2025.
const firstWindows2025 = 35

// image is an image with one set of requirements.
type image struct {
	ec2v1.AMI
	created string // RFC 3339
}

// termImages finds the images of one selector term, those of aliases for a version of Kubernetes.
func (s *imageResolver) termImages(ctx context.Context, term ec2v1.AMISelectorTerm, kubernetes string,
) ([]image, error) {
	in := &ec2.DescribeImagesInput{IncludeDeprecated: awssdk.Bool(true), MaxResults: awssdk.Int32(1000)}
	variants := map[string][]variant{}
	switch {
	case term.Alias != "" || term.SSMParameter != "":
		paths := []aliasPath{{name: term.SSMParameter}}
		if term.Alias == fipsAlias {
			paths = bottlerocketPaths(ec2v1.AliasVersionLatest, kubernetes, "-fips")
		} else if term.Alias != "" {
			family, version, err := parseAlias(term.Alias)
			if err != nil {
				return nil, err
			}
			paths = aliasPaths(family, version, kubernetes)
		}
		for _, path := range paths {
			id, err := s.parameter(ctx, path.name)
			if err != nil {
				return nil, err
			}
			if id != "" {
				variants[id] = append(variants[id], path.variants...)
			}
		}
		if len(variants) == 0 {
			return nil, nil
		}
		in.Filters = append(in.Filters, filter("image-id", sortedKeys(variants)...))
	case term.ID != "":
		in.Filters = append(in.Filters, filter("image-id", term.ID))
	default:
		in.Filters = append(in.Filters, tagFilters(term.Tags)...)
		if term.Name != "" {
			in.Filters = append(in.Filters, filter("name", term.Name))
			// Anyone can share an image of that name. Tags of an image are visible only to the account that created them.
			in.Owners = []string{"self", "amazon"}
		}
		if term.Owner != "" {
			in.Owners = []string{term.Owner}
		}
	}
	in.Filters = append(in.Filters, filter("state", "available"))
	var out []image
	err := eachPage(ctx, ec2.NewDescribeImagesPaginator(s.ec2, in), "describe images", "ec2:DescribeImages",
		func(page *ec2.DescribeImagesOutput) {
			for _, i := range page.Images {
				out = append(out, s.imageEntries(i, variants[awssdk.ToString(i.ImageId)])...)
			}
		})
	return out, err
}

// imageEntries returns an image once per variant, or once if only its architecture is known.
func (s *imageResolver) imageEntries(i ec2types.Image, variants []variant) []image {
	arch, ok := ec2v1.AWSToKubeArchitectures[string(i.Architecture)]
	if !ok {
		return nil
	}
	onArch := corev1.NodeSelectorRequirement{
		Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn,
		Values: []string{arch},
	}
	deprecated := awssdk.ToString(i.DeprecationTime)
	base := image{created: awssdk.ToString(i.CreationDate), AMI: ec2v1.AMI{
		ID: awssdk.ToString(i.ImageId), Name: awssdk.ToString(i.Name),
		// Times in this format compare as text.
		Deprecated: deprecated != "" && deprecated < s.now().UTC().Format("2006-01-02T15:04:05.000Z"),
	}}
	if len(variants) == 0 {
		base.Requirements = []corev1.NodeSelectorRequirement{onArch}
		return []image{base}
	}
	var out []image
	for _, v := range variants {
		one := base
		one.Requirements = append([]corev1.NodeSelectorRequirement{onArch}, v.requirements()...)
		out = append(out, one)
	}
	return out
}

// newest keeps the best image for each set of requirements: not deprecated, then newest, then by ID. Best first.
func newest(images []image) []ec2v1.AMI {
	slices.SortFunc(images, func(a, b image) int {
		return cmp.Or(boolCompare(a.Deprecated, b.Deprecated), -cmp.Compare(a.created, b.created), cmp.Compare(a.ID, b.ID),
			cmp.Compare(fmt.Sprint(a.Requirements), fmt.Sprint(b.Requirements)))
	})
	var out []ec2v1.AMI
	seen := map[string]bool{}
	for _, i := range images {
		key := fmt.Sprint(i.Requirements)
		if !seen[key] {
			seen[key] = true
			out = append(out, i.AMI)
		}
	}
	return out
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// parameter returns the value of an SSM parameter, "" if there is none. Values are cached for parameterAge.
func (s *imageResolver) parameter(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	c, ok := s.parameters[name]
	s.mu.Unlock()
	if ok && s.now().Sub(c.at) < parameterAge {
		return c.value, nil
	}
	out, err := s.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: awssdk.String(name)})
	var missing *ssmtypes.ParameterNotFound
	var value string
	switch {
	case err == nil && out.Parameter != nil:
		value = awssdk.ToString(out.Parameter.Value)
	case errors.As(err, &missing), code(err) == "ValidationException":
		// A malformed name names no parameter either.
	case err != nil:
		return "", wrap("get SSM parameter "+name, "ssm:GetParameter", err)
	}
	s.mu.Lock()
	s.parameters[name] = cached[string]{value, s.now()}
	s.mu.Unlock()
	return value, nil
}
