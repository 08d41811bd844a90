package region

import (
	"math"
	"regexp"
	"strings"
)

// What EC2 says of an instance whose volume it cannot decrypt: it ends as soon as it starts (EC2 user guide,
// "Instance terminates immediately").
const (
	reasonKey    = "Client.InvalidKMSKey.InvalidState"
	reasonKeyMsg = "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state"
)

// keyForm is what names a key of KMS: its ID, its alias, or the ARN of either (KMS developer guide, "Key identifiers").
var keyForm = regexp.MustCompile(`^(arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:(key/)?)?` +
	`([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|mrk-[0-9a-f]{32}|alias/[a-zA-Z0-9/_-]+)$`)

// SetKeyEnabled says whether a key of KMS can be used. One that was never named can.
func (r *Region) SetKeyEnabled(key string, enabled bool) error {
	if !keyForm.MatchString(key) {
		return apiError("InvalidParameterValue", "key %q: give the ID, the alias or the ARN of a KMS key", key)
	}
	times := math.MaxInt
	if enabled {
		times = 0
	}
	r.inject(keyFault(key), func(f *fault) { f.Error, f.Times = apiError(reasonKey, reasonKeyMsg), times })
	return nil
}

// keyFault is under which name a key that cannot be used is among the faults.
func keyFault(key string) string {
	return "kms:" + strings.TrimPrefix(key[strings.LastIndex(key, ":")+1:], "key/")
}

// usable reports whether instances with the volumes can start. The caller holds the lock.
func (r *Region) usable(devices []BlockDevice) bool {
	for _, d := range devices {
		if d.KMSKey != "" && (!keyForm.MatchString(d.KMSKey) || r.faults[keyFault(d.KMSKey)] != nil) {
			return false
		}
	}
	return true
}
