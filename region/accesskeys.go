package region

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// AccessKey is the key of a user or of a role session.
type AccessKey struct {
	ID, Secret string
	Owner      PrincipalKind
	Name       string // of the user or role
	Session    string // name of the role session; "" for a user's key
	Token      string // session token
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero for a user's key
}

// CreateAccessKey creates a key for a user. A user may have two.
func (s *principals) CreateAccessKey(user string) (AccessKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(UserPrincipal, user); err != nil {
		return AccessKey{}, err
	}
	if len(s.keysOf(user)) >= 2 {
		return AccessKey{}, apiError("LimitExceeded", "Cannot exceed quota for AccessKeysPerUser: 2")
	}
	return s.newKey(AccessKey{ID: "AKIA", Owner: UserPrincipal, Name: user})
}

// newKey completes a key whose ID holds only its prefix.
func (s *principals) newKey(k AccessKey) (AccessKey, error) {
	random := make([]byte, 30)
	_, _ = rand.Read(random) // never fails since Go 1.24
	k.ID += strings.ToUpper(s.newID())[1:]
	k.Secret, k.CreatedAt = base64.RawURLEncoding.EncodeToString(random), s.clock.Now()
	s.keys[k.ID] = k
	s.store.put(bucketAccessKeys, k.ID, k)
	return k, s.commit()
}

// AccessKeys returns the keys of a user, sorted by ID.
func (s *principals) AccessKeys(user string) ([]AccessKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(UserPrincipal, user); err != nil {
		return nil, err
	}
	return s.keysOf(user), nil
}

func (s *principals) keysOf(user string) []AccessKey {
	var out []AccessKey
	for _, k := range s.keys {
		if k.Owner == UserPrincipal && k.Name == user {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b AccessKey) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// DeleteAccessKey deletes a key of a user.
func (s *principals) DeleteAccessKey(user, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.keys[id]; !ok || k.Owner != UserPrincipal || k.Name != user {
		return apiError("NoSuchEntity", "The Access Key with id %s cannot be found", id)
	}
	delete(s.keys, id)
	s.store.remove(bucketAccessKeys, id)
	return s.commit()
}

// AssumeRole creates the key of a role session. The caller checks that it is allowed.
func (s *principals) AssumeRole(role, session string, lifetime time.Duration) (AccessKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.find(RolePrincipal, role); err != nil {
		return AccessKey{}, err
	}
	for id, k := range s.keys { // long expired
		if k.Session != "" && s.clock.Now().Sub(k.ExpiresAt) > time.Hour {
			delete(s.keys, id)
			s.store.remove(bucketAccessKeys, id)
		}
	}
	return s.newKey(AccessKey{
		ID: "ASIA", Owner: RolePrincipal, Name: role, Session: session, Token: rand.Text() + rand.Text(),
		ExpiresAt: s.clock.Now().Add(lifetime),
	})
}

// AccessKey finds a key by its ID.
func (s *principals) AccessKey(id string) (AccessKey, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys[id]
	return k, ok
}
