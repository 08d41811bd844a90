package region

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// Image is an AMI.
type Image struct {
	ID, Name, Description string
	Architecture          string // x86_64 or arm64
	OwnerID               string
	RootDevice            string
	Created               time.Time
	Tags                  map[string]string
}

// kubernetesVersions are those the region has images for.
var kubernetesVersions = []string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"}

// imageRelease is the one release of each image; bottlerocketRelease that of Bottlerocket.
const (
	imageRelease        = "v20261101"
	bottlerocketRelease = "1.50.0"
	imageOwner          = "602401143452" // EKS's account for AL2023 images
)

// RootDevice is where every image has its root volume.
const RootDevice = "/dev/xvda"

// dataDevice is where Bottlerocket keeps containers and images, apart from its system on RootDevice.
const dataDevice = "/dev/xvdb"

// BlockDevice is a volume of an instance.
type BlockDevice struct {
	Name     string // such as /dev/xvda
	VolumeID string // "" in a template
	SizeGiB  int64  // 0 = as the image has it
	Keep     bool   // it outlives the instance
	KMSKey   string `json:",omitempty"` // by which it is encrypted: an ID, an alias or an ARN; "" = none or AWS's own
}

// devices are the volumes of a new instance: its image's, and those that its template adds or changes.
func (r *Region) devices(instance, image string, wanted []BlockDevice) []BlockDevice {
	out := []BlockDevice{{Name: RootDevice}}
	if r.isBottlerocket(image) {
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
		out[i].VolumeID = "vol-" + r.fixedID("volume", instance, out[i].Name)
	}
	return out
}

func (r *Region) isBottlerocket(image string) bool {
	return strings.HasPrefix(r.image(image).Name, "bottlerocket")
}

// nodeDisk is the size of the volume that holds containers and their images; 0 = as the image has it.
func (r *Region) nodeDisk(image string, wanted []BlockDevice) int64 {
	name := RootDevice
	if r.isBottlerocket(image) {
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

func (r *Region) furnishImages() {
	for _, version := range kubernetesVersions {
		for _, arch := range []string{"x86_64", "arm64"} {
			for _, variant := range []string{"standard", "nvidia", "neuron"} {
				name := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, variant, version, imageRelease)
				r.addImage(name, arch, "EKS-optimized Kubernetes node based on Amazon Linux 2023 (simulated)", RootDevice)
			}
			for _, flavour := range []string{"", "-nvidia"} {
				name := fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v%s", version, flavour, arch, bottlerocketRelease)
				r.addImage(name, arch, "Bottlerocket (simulated)", RootDevice)
			}
		}
	}
}

func (r *Region) addImage(name, arch, description, root string) {
	r.images = append(r.images, &Image{
		ID: "ami-" + r.fixedID("image", name), Name: name, Description: description, Architecture: arch, OwnerID: imageOwner,
		RootDevice: root, Created: imageDate, Tags: map[string]string{},
	})
}

// Images are all images of the region.
func (r *Region) Images() []Image {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Image, len(r.images))
	for i, x := range r.images {
		out[i] = *x
		out[i].Tags = merged(x.Tags, r.tags[x.ID])
	}
	return out
}

func (r *Region) image(id string) *Image {
	i := slices.IndexFunc(r.images, func(x *Image) bool { return x.ID == id })
	if i < 0 {
		return nil
	}
	return r.images[i]
}

func (r *Region) imageFits(id string, t *catalog.Type) bool {
	image := r.image(id)
	return image != nil && (image.Architecture == "arm64") == (t.Arch == "arm64")
}

// Parameter is a public SSM parameter: the id of an EKS image.
func (r *Region) Parameter(name string) (string, error) {
	for _, i := range r.images {
		if slices.Contains(parameterNames(i), name) {
			return i.ID, nil
		}
	}
	return "", &APIError{Code: "ParameterNotFound", Message: fmt.Sprintf("Parameter %s not found.", name), HTTPStatus: 400}
}

// Parameters are all public SSM parameters below a path, by name.
func (r *Region) Parameters(path string) map[string]string {
	out := map[string]string{}
	for _, i := range r.images {
		for _, name := range parameterNames(i) {
			if strings.HasPrefix(name, path) {
				out[name] = i.ID
			}
		}
	}
	return out
}

// parameterNames are the SSM parameters that lead to an image: under its own release and as the newest.
func parameterNames(i *Image) []string {
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
