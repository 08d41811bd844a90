// Package store keeps decision records in the cluster, in a ring of DecisionLogs. It has the controller's side, which
// gathers decisions and writes them with a short delay, and the readers' side.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/explain/record"
)

// The ring has ringPieces pieces of at most pieceBytes each, 4 MiB in all (ADR 20).
const (
	ringPieces = 128
	pieceBytes = 32 << 10
)

// errMoved means that another process has changed the log, so it must be loaded again.
var errMoved = errors.New("the log was changed by somebody else")

// store is the writing end of the ring. It must not be used concurrently.
type store struct {
	client client.Client
	pieces int64
	bytes  int

	versions map[string]string // resource versions, by name of the piece
	piece    int64             // being written; 0 = none yet
	entries  []record.Entry    // in it
	lately   map[string]bool   // keys of the entries of this piece and the one before
}

// load reads the log and passes each piece's entries to each, oldest first. It skips pieces that cannot be read and
// reports why to damaged.
func (s *store) load(ctx context.Context, each func([]record.Entry), damaged func(error)) error {
	logs, err := list(ctx, s.client)
	if err != nil {
		return err
	}
	s.versions, s.piece, s.entries, s.lately = map[string]string{}, 0, nil, map[string]bool{}
	for i := range logs {
		log := &logs[i]
		s.versions[log.Name] = log.ResourceVersion
		entries, err := record.Decode(log.Data)
		if err != nil {
			damaged(fmt.Errorf("DecisionLog %s: %w", log.Name, err))
		}
		each(entries)
		s.piece, s.entries = log.Piece, entries
		if err != nil {
			s.entries = nil
			s.piece++ // leave the damaged piece as it is
		}
		if i >= len(logs)-2 {
			s.note(entries)
		}
	}
	return nil
}

func (s *store) note(entries []record.Entry) {
	for _, e := range entries {
		s.lately[e.Key()] = true
	}
}

// append writes as many entries as fit into one piece, and returns how many it handled. On errMoved the caller calls
// load and tries again; append then skips entries that had been written after all.
func (s *store) append(ctx context.Context, entries []record.Entry) (int, error) {
	done := len(entries)
	fresh := slices.DeleteFunc(slices.Clone(entries), func(e record.Entry) bool { return s.lately[e.Key()] })
	if len(fresh) == 0 {
		return done, nil
	}
	piece, all := max(s.piece, 1), slices.Concat(s.entries, fresh)
	data, err := record.Encode(all)
	if err != nil {
		return done, err // a retry cannot help
	}
	if len(data) > s.bytes && len(s.entries) > 0 {
		piece, all = s.piece+1, fresh
		if data, err = record.Encode(all); err != nil {
			return done, err
		}
	}
	for len(data) > s.bytes && len(all) > 1 { // this piece holds only fresh entries
		all = all[:len(all)/2]
		if data, err = record.Encode(all); err != nil {
			return done, err
		}
	}
	if len(all) < len(fresh) {
		done = slices.IndexFunc(entries, func(e record.Entry) bool { return e.Key() == fresh[len(all)].Key() })
	}
	if err := s.write(ctx, piece, all, data); err != nil {
		return 0, err
	}
	if piece != s.piece {
		s.lately = map[string]bool{}
		s.note(s.entries)
	}
	s.piece, s.entries = piece, all
	s.note(all)
	return done, nil
}

// write creates a piece, or overwrites the one with its name if that has not changed since it was read.
func (s *store) write(ctx context.Context, piece int64, entries []record.Entry, data []byte) error {
	log := &v1alpha1.DecisionLog{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name(piece, s.pieces),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "nodeless"},
		},
		Piece: piece, Entries: int32(len(entries)), Data: data,
		From: metav1.NewTime(entries[0].When()), To: metav1.NewTime(entries[len(entries)-1].When()),
	}
	log.ResourceVersion = s.versions[log.Name]
	var err error
	if log.ResourceVersion == "" {
		err = s.client.Create(ctx, log)
	} else {
		err = s.client.Update(ctx, log)
	}
	switch {
	case err == nil:
		s.versions[log.Name] = log.ResourceVersion
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && log.ResourceVersion != "":
		return fmt.Errorf("write DecisionLog %s: %w", log.Name, errors.Join(errMoved, err))
	}
	return fmt.Errorf("write DecisionLog %s: %w", log.Name, err)
}

// name returns the object name of a piece, which is its slot in the ring.
func name(piece, pieces int64) string { return fmt.Sprintf("piece-%03d", (piece-1)%pieces) }

// list returns all pieces, oldest first.
func list(ctx context.Context, r client.Reader) ([]v1alpha1.DecisionLog, error) {
	var all v1alpha1.DecisionLogList
	if err := r.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list DecisionLogs: %w", err)
	}
	slices.SortFunc(all.Items, func(a, b v1alpha1.DecisionLog) int { return cmp.Compare(a.Piece, b.Piece) })
	return all.Items, nil
}
