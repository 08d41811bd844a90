package region_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/nodeless/nodeless/region"
)

// copyOf returns a folder with copies of the files of another.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestADamagedStateFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := seeded(t, region.Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "us-west-2.db")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"overwritten": []byte(strings.Repeat("not a database. ", 4096)),
		"cut short":   whole[:100],
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := region.Open(region.Config{Name: "us-west-2", Dir: dir})
			if err == nil {
				_ = r.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), file) {
				t.Errorf("the error does not name %s: %v", file, err)
			}
		})
	}
}

func TestAConfigurationThatCannotBeIsRefused(t *testing.T) {
	for field, c := range map[string]region.Config{
		"mars-1": {Name: "mars-1"}, "/29": {Name: "us-west-2", SubnetBits: 29},
		"boot time": {Name: "us-west-2", Boot: region.BootTime{Median: -1}},
	} {
		if _, err := region.Open(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestASpoiledRecordIsNamedWithItsFile(t *testing.T) {
	dir := t.TempDir()
	if err := seeded(t, region.Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "us-west-2.db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("instances")).Put([]byte("i-spoiled"), []byte(`{"ID":`))
	})
	if err := cmp.Or(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = region.Open(region.Config{Name: "us-west-2", Dir: dir})
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "i-spoiled") {
		t.Errorf("the error names not both file and record: %v", err)
	}
}
