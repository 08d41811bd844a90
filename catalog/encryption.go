package catalog

import (
	"slices"
	"strings"
)

// Families that encrypt although they predate the sixth generation, and sixth-generation families that do not
// (Graviton2). Source: EC2 User Guide, "Data protection in Amazon EC2", encryption in transit; checked against the
// DescribeInstanceTypes answers recorded in Karpenter's AWS provider v1.14.1.
var (
	encryptingEarly = strings.Fields(`c5a c5ad c5n m5n m5dn m5zn r5n r5dn
		d3 d3en i3en i4g i4i im4gn is4gen x2idn x2iedn x2iezn u-3tb1 u-6tb1 u-9tb1 u-12tb1 u-18tb1 u-24tb1
		dl1 dl2q f2 g4ad g4dn g5 inf1 inf2 p3dn p4d p4de p5 p5e p5en trn1 trn1n trn2 vt1`)
	plainLate = strings.Fields(`c6g c6gd m6g m6gd r6g r6gd`)
)

// EncryptsInTransit reports whether the type's network cards encrypt traffic to others of their kind.
func EncryptsInTransit(t *Type) bool {
	if t.Generation >= 6 {
		return !slices.Contains(plainLate, t.Family)
	}
	return slices.Contains(encryptingEarly, t.Family)
}
