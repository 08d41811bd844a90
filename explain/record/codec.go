package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// mostText is how many bytes of JSON one piece may hold when it is unpacked: more is no piece of ours.
const mostText = 64 << 20

// Encode packs entries: JSON, one on a line, compressed by gzip. The same entries give the same bytes.
func Encode(entries []Entry) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	lines := json.NewEncoder(z)
	for _, e := range entries {
		if err := lines.Encode(e); err != nil {
			return nil, fmt.Errorf("encode decision %s: %w", e.Key(), err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("encode decisions: %w", err)
	}
	return b.Bytes(), nil
}

// Decode is the inverse of Encode. Of data that is damaged it gives what can be read, and says what cannot.
func Decode(data []byte) ([]Entry, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpack decisions: %w", err)
	}
	limited := &io.LimitedReader{R: z, N: mostText}
	lines := json.NewDecoder(limited)
	var out []Entry
	for {
		var e Entry
		switch err := lines.Decode(&e); {
		case limited.N <= 0:
			return out, fmt.Errorf("decisions are larger than %d bytes when they are unpacked", mostText)
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, fmt.Errorf("read decision %d: %w", len(out)+1, err)
		case e.Key() != "" && !e.When().IsZero():
			out = append(out, e)
		}
	}
}
