package region

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// Buckets of the state file.
const (
	bucketMeta      = "meta"
	bucketInstances = "instances"
	bucketTokens    = "tokens"
	bucketTemplates = "templates"
	bucketTags      = "tags"
	bucketPods      = "pods"
	bucketSizes     = "sizes"
	bucketQueues    = "queues"
	bucketMessages  = "messages"
	bucketProfiles  = "profiles"
	bucketFaults    = "faults"
	bucketUserData  = "user-data"
	bucketRules     = "rules"

	bucketLoadBalancers = "load-balancers"
	bucketListeners     = "listeners"
	bucketListenerRules = "listener-rules"
	bucketTargetGroups  = "target-groups"

	bucketInterfaces     = "interfaces"
	bucketReservations   = "reservations" // of subnet CIDRs
	bucketSubnets        = "subnets"
	bucketSecurityGroups = "security-groups"
	bucketLogGroups      = "log-groups"
	bucketLogStreams     = "log-streams"
	bucketLogBatches     = "log-batches"

	bucketGroups         = "auto-scaling-groups"
	bucketConfigurations = "launch-configurations"
	bucketActivities     = "scaling-activities"
	bucketNodegroups     = "node-groups"

	bucketCapacityReservations = "capacity-reservations"
	bucketPlacementGroups      = "placement-groups"
	bucketZonalShifts          = "zonal-shifts"

	bucketPrincipals = "principals"
	bucketAccessKeys = "access-keys"
)

var buckets = []string{
	bucketMeta, bucketInstances, bucketTokens, bucketTemplates, bucketTags, bucketPods, bucketSizes, bucketQueues,
	bucketMessages, bucketProfiles, bucketFaults, bucketUserData, bucketRules,
	bucketLoadBalancers, bucketListeners, bucketListenerRules, bucketTargetGroups,
	bucketInterfaces, bucketReservations, bucketSubnets, bucketSecurityGroups,
	bucketLogGroups, bucketLogStreams, bucketLogBatches,
	bucketGroups, bucketConfigurations, bucketActivities, bucketNodegroups,
	bucketPrincipals, bucketAccessKeys, bucketCapacityReservations,
	bucketPlacementGroups, bucketZonalShifts,
}

// Keys of bucketMeta.
const (
	metaSequence = "sequence"
	metaCluster  = "cluster"
	metaNext     = "next/" // + subnet ID
)

// store collects the records that a call changes and writes them in one transaction. Without a folder it keeps nothing.
type store struct {
	db      *bbolt.DB
	pending []change
	err     error
}

type change struct {
	bucket, key string
	value       []byte // nil = delete
}

// openStore opens the state file. bbolt writes it without fsync: writes survive a kill of the process, as the pages
// stay in the kernel's cache, but not a power cut, after which the whole local cluster starts afresh.
func openStore(dir, region string) (*store, error) {
	if dir == "" {
		return &store{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("region %s: state folder: %w", region, err)
	}
	path := filepath.Join(dir, region+".db")
	damaged := func(err error) error {
		return fmt.Errorf("region %s: state file %s cannot be read: %w; delete it, or everything with `nodeless down --wipe`",
			region, path, err)
	}
	db, err := open(path)
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("region %s: state file %s is in use by another process; stop it with `nodeless down`",
			region, path)
	}
	if err != nil {
		return nil, damaged(err)
	}
	if err := catchPanics(func() error { return db.Update(createBuckets) }); err != nil {
		// Not closed: a transaction that panicked may hold bbolt's locks. The error ends the process.
		return nil, damaged(err)
	}
	return &store{db: db}, nil
}

func createBuckets(tx *bbolt.Tx) error {
	for _, b := range buckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
			return err
		}
	}
	return nil
}

// open opens the file, which includes the freelist: without it, bbolt would look for free pages on a goroutine of its
// own, where a panic over a damaged page cannot be recovered.
func open(path string) (db *bbolt.DB, err error) {
	err = catchPanics(func() error {
		db, err = bbolt.Open(path, 0o600,
			&bbolt.Options{Timeout: 2 * time.Second, NoSync: true, FreelistType: bbolt.FreelistMapType})
		return err
	})
	return db, err
}

// catchPanics turns bbolt's panics over a damaged file into errors, including memory faults beyond the end of a
// truncated file.
func catchPanics(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	return f()
}

func (s *store) put(bucket, key string, value any) {
	if s.db == nil {
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		s.err = errors.Join(s.err, fmt.Errorf("save %s %s: %w", bucket, key, err))
		return
	}
	s.pending = append(s.pending, change{bucket, key, data})
}

func (s *store) remove(bucket, key string) {
	if s.db != nil {
		s.pending = append(s.pending, change{bucket: bucket, key: key})
	}
}

// commit writes all changes since the last commit in one transaction.
func (s *store) commit() error {
	if s.db == nil || (len(s.pending) == 0 && s.err == nil) {
		return nil
	}
	changes, err := s.pending, s.err
	s.pending, s.err = nil, nil
	if err != nil {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, c := range changes {
			b := tx.Bucket([]byte(c.bucket))
			if c.value == nil {
				err = b.Delete([]byte(c.key))
			} else {
				err = b.Put([]byte(c.key), c.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *store) close() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}
