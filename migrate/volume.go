package migrate

import (
	"maps"
	"slices"
	"strings"
)

// rootDevice returns the device name, in its images, of the volume that holds container images and pod logs. image is
// a name of the images, or of their family.
func rootDevice(image string) string {
	switch image = strings.ToLower(image); {
	case strings.Contains(image, "bottlerocket"):
		return "/dev/xvdb" // its data volume
	case strings.Contains(image, "ubuntu"), strings.Contains(image, "windows"):
		return "/dev/sda1"
	}
	return "/dev/xvda"
}

// volume reads the fields of an EBS volume. names maps their names here to those in an EC2NodeClass. Sizes are GiB.
func (f *fields) volume(names map[string]string) map[string]any {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		v := f.move(key, "spec.blockDeviceMappings")
		switch {
		case v == nil:
		case names[key] == "volumeSize":
			out[names[key]] = text(v) + "Gi"
		default:
			out[names[key]] = v
		}
	}
	return out
}
