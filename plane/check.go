package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// CorruptError reports that etcd's files are damaged.
type CorruptError struct {
	Dir   string
	Cause error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the cluster's data in %s is damaged: %v; delete it and begin anew with \"nodeless down "+
		"--wipe%s\" and \"nodeless up\" (keep a copy of the folder first if you want to rescue something)",
		e.Dir, e.Cause, datadir.Flag(filepath.Dir(e.Dir)))
}

func (e *CorruptError) Unwrap() error { return e.Cause }

// initialised returns the file that marks an etcd which has been ready once. Before that nothing can have been stored,
// so that the incomplete files of a killed start can be deleted.
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

// checkFiles reads etcd's write-ahead log and database before etcd does: on damage etcd ends the process, in goroutines
// that nobody can guard. Torn last records are no damage; etcd repairs those.
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
	if err := guard(func() error { return readLog(logDir) }); err != nil {
		return &CorruptError{Dir: dir, Cause: fmt.Errorf("write-ahead log: %w", err)}
	}
	if err := guard(func() error { return readDatabase(db) }); err != nil {
		return &CorruptError{Dir: dir, Cause: fmt.Errorf("database: %w", err)}
	}
	return nil
}

// guard runs f and turns panics, etcd's fatal log lines and reads beyond the end of a mapped file into errors.
func guard(f func() error) error {
	result := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true)
		err := errors.New("reading it was given up")
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

func readLog(dir string) error {
	lg := etcdLogger(func(error) {})
	snapshots, err := wal.ValidSnapshotEntries(lg, dir)
	if err != nil {
		return err
	}
	if len(snapshots) == 0 {
		return errors.New("it has no valid beginning")
	}
	_, err = wal.Verify(lg, dir, snapshots[len(snapshots)-1])
	return err
}

// readDatabase visits every key, and so every page in use.
func readDatabase(path string) (err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
	})
}
