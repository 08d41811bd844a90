package region

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// Image is an AMI.
type Image struct {
	ID, Name, Description string
	Architecture          string // x86_64 or arm64
	Windows               string // the version of Windows Server, such as 2022; "" = Linux
	OwnerID               string
	RootDevice            string
	Created               time.Time
	Tags                  map[string]string
}

// kubernetesVersions are the Kubernetes versions that the region has images for.
var kubernetesVersions = []string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"}

// Each image has one release, by family.
const (
	imageRelease        = "v20261101"
	bottlerocketRelease = "1.50.0"
	windowsRelease      = "2026.11.01"
	imageOwner          = "602401143452" // EKS's account for AL2023 images
	windowsOwner        = "801119661308" // Amazon's account for images of Windows
)

// firstWindows2025 is the first Kubernetes version with images of Windows Server 2025.
const firstWindows2025 = "1.35"

// The device names of root volumes.
const (
	linuxRoot   = "/dev/xvda"
	windowsRoot = "/dev/sda1"
)

// dataDevice is the device on which Bottlerocket keeps containers and images; its root volume holds the OS.
const dataDevice = "/dev/xvdb"

// BlockDevice is a volume of an instance.
type BlockDevice struct {
	Name     string // such as /dev/xvda
	VolumeID string // "" in a template
	SizeGiB  int64  // 0 means the size in the image
	Keep     bool   // it outlives the instance

	Type             string `json:",omitempty"` // such as gp3; "" means EC2's default
	IOPS, Throughput int64  `json:",omitempty"` // 0 means the type's default
	Snapshot         string `json:",omitempty"` // of its contents, other than the image's
	KMSKey           string `json:",omitempty"` // encrypts it: an ID, an alias or an ARN; "" means none or AWS's own
}

// images holds the AMIs and the SSM parameters that name them.
type images struct {
	*core
	all []*Image
}

func newImages(c *core) *images {
	s := &images{core: c}
	for _, version := range kubernetesVersions {
		for _, arch := range []string{"x86_64", "arm64"} {
			for _, variant := range []string{"standard", "nvidia", "neuron"} {
				s.add(fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, variant, version, imageRelease), arch,
					"EKS-optimized Kubernetes node based on Amazon Linux 2023 (simulated)")
			}
			for _, flavour := range []string{"", "-nvidia", "-fips", "-nvidia-fips"} {
				s.add(fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v%s", version, flavour, arch, bottlerocketRelease), arch,
					"Bottlerocket (simulated)")
			}
		}
		s.addWindows(version)
	}
	return s
}

func (s *images) add(name, arch, description string) *Image {
	i := &Image{
		ID: "ami-" + s.fixedID("image", name), Name: name, Description: description, Architecture: arch, OwnerID: imageOwner,
		RootDevice: linuxRoot, Created: imageDate, Tags: map[string]string{},
	}
	s.all = append(s.all, i)
	return i
}

// addWindows adds the images of Windows Server for a version of Kubernetes.
func (s *images) addWindows(version string) {
	for _, year := range slices.Sorted(maps.Keys(catalog.WindowsBuilds)) {
		if year == "2025" && version < firstWindows2025 {
			continue
		}
		for _, edition := range []string{"Core", "Full"} {
			i := s.add(fmt.Sprintf("Windows_Server-%s-English-%s-EKS_Optimized-%s-%s", year, edition, version, windowsRelease),
				"x86_64", "Microsoft Windows Server "+year+" EKS Optimized (simulated)")
			i.Windows, i.RootDevice, i.OwnerID = year, windowsRoot, windowsOwner
		}
	}
}

// devices returns the volumes of a new instance: those of its image, with those that its template adds or overrides.
func (s *images) devices(instance, image string, wanted []BlockDevice) []BlockDevice {
	out := []BlockDevice{{Name: s.image(image).RootDevice}}
	if s.isBottlerocket(image) {
		out = append(out, BlockDevice{Name: dataDevice})
	}
	for _, w := range wanted {
		if i := slices.IndexFunc(out, func(d BlockDevice) bool { return d.Name == w.Name }); i >= 0 {
			out[i] = w
		} else {
			out = append(out, w)
		}
	}
	for i := range out {
		out[i].VolumeID = "vol-" + s.fixedID("volume", instance, out[i].Name)
	}
	return out
}

func (s *images) isBottlerocket(image string) bool {
	return strings.HasPrefix(s.image(image).Name, "bottlerocket")
}

// nodeDisk returns the size of the volume that holds containers and images; 0 means the size in the image.
func (s *images) nodeDisk(image string, wanted []BlockDevice) int64 {
	name := s.image(image).RootDevice
	if s.isBottlerocket(image) {
		name = dataDevice
	}
	for _, d := range wanted {
		if d.Name == name {
			return d.SizeGiB
		}
	}
	return 0
}

var imageDate = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// Images returns all images of the region.
func (s *images) Images() []Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Image, len(s.all))
	for i, x := range s.all {
		out[i] = *x
		out[i].Tags = s.tagged(x.ID, x.Tags)
	}
	return out
}

func (s *images) image(id string) *Image {
	i := slices.IndexFunc(s.all, func(x *Image) bool { return x.ID == id })
	if i < 0 {
		return nil
	}
	return s.all[i]
}

func (s *images) fits(id string, t *catalog.Type) bool {
	image := s.image(id)
	return image != nil && (image.Architecture == "arm64") == (t.Arch == "arm64")
}

// Parameter returns the value of a public SSM parameter: the ID of an EKS image.
func (s *images) Parameter(name string) (string, error) {
	for _, i := range s.all {
		if slices.Contains(parameterNames(i), name) {
			return i.ID, nil
		}
	}
	return "", apiError("ParameterNotFound", "Parameter %s not found.", name)
}

// Parameters returns all public SSM parameters below a path, by name.
func (s *images) Parameters(path string) map[string]string {
	out := map[string]string{}
	for _, i := range s.all {
		for _, name := range parameterNames(i) {
			if strings.HasPrefix(name, path) {
				out[name] = i.ID
			}
		}
	}
	return out
}

// parameterNames returns the SSM parameters that name an image: one for its release and one for the latest. Windows
// has only the latter.
func parameterNames(i *Image) []string {
	if i.Windows != "" {
		f := strings.Split(i.Name, "-") // name, year, language, edition, purpose, version, release
		return []string{catalog.WindowsImage(i.Windows, f[3], f[5])}
	}
	if rest, ok := strings.CutPrefix(i.Name, "amazon-eks-node-al2023-"); ok {
		f := strings.Split(rest, "-") // arch, variant, version, release
		base := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/", f[2], f[0], f[1])
		return []string{base + "recommended/image_id", base + i.Name + "/image_id"}
	}
	rest := strings.TrimPrefix(i.Name, "bottlerocket-aws-k8s-")
	flavour, _, _ := strings.Cut(strings.TrimSuffix(rest, "-v"+bottlerocketRelease), "-"+i.Architecture)
	base := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s/%s/", flavour, i.Architecture)
	return []string{base + "latest/image_id", base + bottlerocketRelease + "/image_id"}
}
