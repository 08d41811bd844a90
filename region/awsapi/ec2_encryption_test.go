package awsapi

import (
	"testing"

	"github.com/nodeless/nodeless/catalog"
)

func TestWhichTypesEncryptInTransit(t *testing.T) {
	for name, want := range map[string]bool{
		"c6g.large": false, "m5.large": false, "m5.metal": false, "t3.large": false, "t4g.medium": false,
		"m4.large": false, "c6gn.large": true,
		"dl1.24xlarge": true, "g4ad.16xlarge": true, "g4dn.8xlarge": true, "g5.12xlarge": true, "inf2.xlarge": true,
		"trn1.2xlarge": true, "m5n.large": true, "m6idn.32xlarge": true, "m7i-flex.large": true, "m7g.metal": true,
	} {
		x, ok := catalog.Lookup(name)
		if !ok {
			t.Fatalf("%s is not in the catalogue", name)
		}
		if got := *typeOf(&catalog.Offer{Type: x}).NetworkInfo.EncryptionInTransitSupported; got != want {
			t.Errorf("%s encrypts in transit: %t, want %t", name, got, want)
		}
	}
}
