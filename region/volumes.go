package region

import "cmp"

// volumeType holds the limits of a type of EBS volumes; a type without IOPS or throughput takes no such setting.
type volumeType struct{ size, iops, throughput [2]int64 }

// volumeTypes are the types by name (EC2 API reference, CreateVolume: Size, Iops, Throughput).
var volumeTypes = map[string]volumeType{
	"gp2":      {size: [2]int64{1, 16_384}},
	"gp3":      {size: [2]int64{1, 65_536}, iops: [2]int64{3_000, 80_000}, throughput: [2]int64{125, 2_000}},
	"io1":      {size: [2]int64{4, 16_384}, iops: [2]int64{100, 64_000}},
	"io2":      {size: [2]int64{4, 65_536}, iops: [2]int64{100, 256_000}},
	"st1":      {size: [2]int64{125, 16_384}},
	"sc1":      {size: [2]int64{125, 16_384}},
	"standard": {size: [2]int64{1, 1_024}},
}

// defaultVolumeType is the type of a volume that names none.
const defaultVolumeType = "gp2"

// snapshotGiB returns the size of the snapshot that an image has for a device; 0 if it has none.
func (s *images) snapshotGiB(image, device string) int64 {
	i := s.image(image)
	switch bottlerocket := s.isBottlerocket(image); {
	case bottlerocket && device == dataDevice:
		return 1
	case device != i.RootDevice:
		return 0
	case bottlerocket:
		return 2
	case i.Windows != "":
		return 50
	}
	return 20
}

// checkDevices returns an error if EC2 cannot create the volumes of an instance.
func (s *images) checkDevices(image string, devices []BlockDevice) *APIError {
	for _, d := range devices {
		name := cmp.Or(d.Type, defaultVolumeType)
		t, known := volumeTypes[name]
		if !known {
			return apiError("InvalidParameterValue", "Value (%s) for parameter volumeType of device '%s' is invalid.", name,
				d.Name)
		}
		snapshot := s.snapshotGiB(image, d.Name)
		switch {
		case d.SizeGiB == 0 && snapshot == 0 && d.Snapshot == "":
			return apiError("MissingParameter", "The request must contain the parameter size or snapshotId")
		case d.SizeGiB != 0 && d.SizeGiB < snapshot:
			return apiError("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot 'snap-%s', expect "+
				"size>= %dGB", d.SizeGiB, s.fixedID("snapshot", image, d.Name), snapshot)
		}
		for _, p := range []struct {
			name  string
			given int64
			limit [2]int64
		}{{"volumeSize", d.SizeGiB, t.size}, {"iops", d.IOPS, t.iops}, {"throughput", d.Throughput, t.throughput}} {
			if err := checkSetting(p.name, d.Name, name, p.given, p.limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSetting checks a setting of a device's volume; 0 means that it is not set.
func checkSetting(setting, device, volumeType string, given int64, limit [2]int64) *APIError {
	const code = "InvalidBlockDeviceMapping"
	switch {
	case given == 0 || given >= limit[0] && given <= limit[1] && limit[1] > 0:
		return nil
	case limit[1] == 0:
		return apiError(code, "%s cannot be specified with the volumeType of device '%s'", setting, device)
	}
	return apiError(code, "%s %d of device '%s' is invalid: a volume of type %s has %d to %d", setting, given, device,
		volumeType, limit[0], limit[1])
}
