package record

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Digest identifies a snapshot by the main inputs of decisions: its time, the nodes with their types, prices, states
// and pods, the pending pods, and the limits of the pools. Two decisions with the same digest were made on the same
// snapshot. Digest takes some 20 ms for 150,000 pods, so call it in the goroutine that records, not in the one that
// decides.
func Digest(s *model.Snapshot) string {
	d := digest{sha256.New()}
	d.numbers(s.Now.UnixNano(), int64(len(s.Nodes)), int64(len(s.Pending)), int64(len(s.Pools)), int64(len(s.Shapes)))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		d.words(n.Name, n.Claim, n.Type, n.Zone, n.CapacityType, n.Drifted, n.Command)
		d.numbers(int64(n.Price), int64(n.State), yes(n.Deleting), yes(n.DoNotDisrupt), int64(len(n.Pods)))
		for j := range n.Pods {
			d.words(n.Pods[j].UID)
		}
	}
	for i := range s.Pending {
		d.words(s.Pending[i].UID, s.Pending[i].From)
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		d.words(p.Name, p.NotReady)
		d.numbers(int64(len(p.Types)), p.Limits.Nodes)
		d.numbers(p.Limits.Max[:]...)
	}
	return hex.EncodeToString(d.Sum(nil)[:8])
}

type digest struct{ hash.Hash }

func (d digest) words(all ...string) {
	for _, w := range all {
		d.numbers(int64(len(w)))
		_, _ = d.Write([]byte(w))
	}
}

func (d digest) numbers(all ...int64) {
	var b [8]byte
	for _, n := range all {
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		_, _ = d.Write(b[:])
	}
}

func yes(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// identity identifies a decision by its time, its kind and its objects.
func identity(at time.Time, kind Kind, about ...string) string {
	d := digest{sha256.New()}
	d.numbers(at.UnixNano())
	d.words(string(kind))
	d.words(about...)
	return hex.EncodeToString(d.Sum(nil)[:5])
}
