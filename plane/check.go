package plane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// CorruptError reports that etcd's files are damaged.
type CorruptError struct {
	Dir   string
	Cause error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the cluster's data in %s is damaged: %v; delete it and start over with \"nodeless down "+
		"--wipe%s\" and \"nodeless up\" (keep a copy of the folder first if you want to rescue something)",
		e.Dir, e.Cause, datadir.Flag(filepath.Dir(e.Dir)))
}

func (e *CorruptError) Unwrap() error { return e.Cause }

// initialised returns the path of the file that marks an etcd that has been ready once. Before that nothing can have
// been stored, so the incomplete files of a killed start can be deleted.
func initialised(dir string) string { return filepath.Join(dir, "initialised") }

func markInitialised(dir string) error {
	if _, err := os.Stat(initialised(dir)); err == nil {
		return nil
	}
	if err := os.WriteFile(initialised(dir), nil, 0o600); err != nil {
		return fmt.Errorf("etcd folder: %w", err)
	}
	return nil
}

// checkFiles reads etcd's write-ahead log and database before etcd does: on damage etcd ends the process, in
// goroutines that cannot be guarded. A torn last record is not damage; etcd repairs it.
func checkFiles(dir string) error {
	member := filepath.Join(dir, "member")
	if _, err := os.Stat(initialised(dir)); errors.Is(err, os.ErrNotExist) {
		if err := os.RemoveAll(member); err != nil {
			return fmt.Errorf("etcd folder: %w", err)
		}
		return nil
	}
	logDir, db := filepath.Join(member, "wal"), filepath.Join(member, "snap", "db")
	if !wal.Exist(logDir) {
		return &CorruptError{Dir: dir, Cause: fmt.Errorf("there is no write-ahead log in %s", logDir)}
	}
	if _, err := os.Stat(db); err != nil {
		return &CorruptError{Dir: dir, Cause: err}
	}
	var logged, applied uint64
	if err := guard(func() (err error) { logged, err = readLog(logDir); return err }); err != nil {
		return &CorruptError{Dir: dir, Cause: fmt.Errorf("write-ahead log: %w", err)}
	}
	if err := guard(func() (err error) { applied, err = readDatabase(db); return err }); err != nil {
		return &CorruptError{Dir: dir, Cause: fmt.Errorf("database: %w", err)}
	}
	// etcd takes a record that claims more bytes than the file has for a torn last record, and drops everything after
	// it. It would then skip every write until the log has grown past what the database holds.
	if logged < applied {
		return &CorruptError{Dir: dir, Cause: fmt.Errorf(
			"write-ahead log: it can be read up to entry %d, but the database holds entry %d", logged, applied)}
	}
	return nil
}

// guard runs f and turns panics, etcd's fatal log lines and reads beyond the end of a mapped file into errors.
func guard(f func() error) error {
	result := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true)
		err := errors.New("etcd stopped reading it with a fatal error")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
			result <- err
		}()
		err = f()
	}()
	return <-result
}

// readLog returns the index of the last entry in the write-ahead log.
func readLog(dir string) (last uint64, err error) {
	lg := etcdLogger(func(error) {})
	snapshots, err := wal.ValidSnapshotEntries(lg, dir)
	if err != nil {
		return 0, err
	}
	if len(snapshots) == 0 {
		return 0, errors.New("it has no valid snapshot entry")
	}
	from := snapshots[len(snapshots)-1]
	log, err := wal.OpenForRead(lg, dir, from)
	if err != nil {
		return 0, err
	}
	_, _, entries, err := log.ReadAll() // closes the files; log.Close is for logs opened for writing
	if err != nil || len(entries) == 0 {
		return from.Index, err
	}
	return entries[len(entries)-1].Index, nil
}

// readDatabase visits every key, and so every page in use, and returns the index of the last applied entry.
func readDatabase(path string) (applied uint64, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
			if index := meta.Get(schema.MetaConsistentIndexKeyName); len(index) == 8 {
				applied = binary.BigEndian.Uint64(index)
			}
		}
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
	return applied, err
}
