package image

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nodeless/nodeless/microvm/image/rootdisk"
)

// recordSuffix is appended to a disk's file name. Increment format when disks are made in a different way.
const (
	recordSuffix = ".json"
	format       = 1
)

// record describes a disk. It is stored beside the disk, so that both appear and vanish together.
type record struct {
	Format    int               `json:"format"`
	DiskBytes int64             `json:"diskBytes"`
	Config    Config            `json:"config"`
	Accounts  rootdisk.Accounts `json:"accounts"`
	// Names are those the image was pulled by, normalized.
	Names map[string]origin `json:"names"`
}

// origin is what a name referred to when it was last resolved.
type origin struct {
	Digest string `json:"digest"` // of the manifest or index; empty for a docker archive
	// Public is set if it was read without credentials. A private image is returned from the cache only for credentials
	// that were accepted since this process began. Credentials are never written to disk, not even as digests.
	Public bool `json:"public"`
}

func diskName(id v1.Hash) string { return filepath.Join(disks, id.Hex+".ext4") }

func blobName(h v1.Hash) string { return filepath.Join(blobs, h.Hex) }

// records returns the records of all disks in the store, and removes disks without a valid record, which are left by a
// crash or have an older format.
func records(s *store) (map[v1.Hash]*record, error) {
	all := map[v1.Hash]*record{}
	for name, f := range s.files {
		hex, ok := strings.CutSuffix(filepath.Base(name), ".ext4")
		if !ok || filepath.Dir(name) != disks {
			continue
		}
		r, err := readRecord(s, name)
		if err != nil || r.DiskBytes != f.bytes {
			s.drop(name)
			continue
		}
		all[v1.Hash{Algorithm: "sha256", Hex: hex}] = r
	}
	strays, err := filepath.Glob(filepath.Join(s.dir, disks, "*"+recordSuffix))
	if err != nil {
		return nil, err
	}
	for _, path := range strays {
		if _, ok := s.files[filepath.Join(disks, strings.TrimSuffix(filepath.Base(path), recordSuffix))]; !ok {
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("clear the image cache: %w", err)
			}
		}
	}
	return all, nil
}

func readRecord(s *store, disk string) (*record, error) {
	data, err := os.ReadFile(s.path(disk) + recordSuffix)
	if err != nil {
		return nil, fmt.Errorf("image cache: %w; delete %s, it will be made again", err, s.path(disk))
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r.Format != format {
		return nil, fmt.Errorf("image cache: %s is not a record of format %d; delete it and the disk beside it, they will "+
			"be made again", s.path(disk)+recordSuffix, format)
	}
	return &r, nil
}

// write replaces the record beside the disk, atomically.
func (r *record) write(s *store, id v1.Hash) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, temp), "record-*")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	_, err = finish(f, s.path(diskName(id))+recordSuffix)
	return err
}
