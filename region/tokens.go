package region

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// tokenLife is how long a client token is remembered.
const tokenLife = 48 * time.Hour

// token is the result of a call that had a client token.
type token struct {
	Digest string // of the request's parameters
	At     time.Time
	Fleet  *FleetResult `json:",omitempty"`
	Run    []string     `json:",omitempty"`
	ID     string       `json:",omitempty"` // of what the call created
}

// tokens remembers the results of calls by their client tokens, so that a repeated call does nothing again. The
// caller holds the region's lock.
type tokens struct {
	*core
	byKey map[string]*token // by kind of call and client token
	swept time.Time
}

func newTokens(c *core) *tokens { return &tokens{core: c, byKey: map[string]*token{}} }

// result returns the result of an earlier call with a client token, or a new, empty result. An earlier call with
// other parameters is an error.
func (s *tokens) result(kind, clientToken string, q any) (t *token, known bool, err error) {
	data, err := json.Marshal(q)
	if err != nil {
		return nil, false, apiError("InvalidParameterValue", "%v", err)
	}
	s.forget()
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:16])
	t, known = s.byKey[kind+clientToken]
	switch {
	case !known || clientToken == "":
		return &token{Digest: digest, At: s.clock.Now()}, false, nil
	case t.Digest != digest:
		return nil, false, apiError("IdempotentParameterMismatch",
			"The client token '%s' was used before with other parameters", clientToken)
	}
	return t, true, nil
}

// forget drops expired tokens, at most once an hour.
func (s *tokens) forget() {
	if now := s.clock.Now(); now.Sub(s.swept) > time.Hour {
		s.swept = now
		for key, t := range s.byKey {
			if now.Sub(t.At) > tokenLife {
				delete(s.byKey, key)
				s.store.remove(bucketTokens, key)
			}
		}
	}
}

// remember saves the result of a call with a client token.
func (s *tokens) remember(kind, clientToken string, t *token) {
	if clientToken != "" {
		s.byKey[kind+clientToken] = t
		s.store.put(bucketTokens, kind+clientToken, t)
	}
}

// created returns the ID of what an earlier call with a client token created, "" if there was none, and a function
// that remembers what this call creates.
func (s *tokens) created(kind, clientToken string, q any) (id string, remember func(id string), err error) {
	if clientToken == "" {
		return "", func(string) {}, nil
	}
	t, _, err := s.result(kind, clientToken, q)
	if err != nil {
		return "", nil, err
	}
	return t.ID, func(id string) {
		t.ID = id
		s.remember(kind, clientToken, t)
	}, nil
}

// Created returns the ID of what an earlier call of a kind with a client token created, "" if there was none. An
// earlier call with other parameters is an error. It is for calls whose results are not in the region.
func (s *tokens) Created(kind, clientToken string, q any) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _, err := s.created(kind, clientToken, q)
	return id, err
}

// RememberCreated saves the ID of what a call with a client token created, for Created.
func (s *tokens) RememberCreated(kind, clientToken string, q any, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, remember, err := s.created(kind, clientToken, q)
	if err != nil {
		return err
	}
	remember(id)
	return s.commit()
}
