package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxText bounds the uncompressed JSON of one piece.
const maxText = 64 << 20

// Encode packs entries as JSON lines compressed by gzip. Equal entries give equal bytes.
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

// Decode is the inverse of Encode. From damaged data it returns the entries that it can read, and an error.
func Decode(data []byte) ([]Entry, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpack decisions: %w", err)
	}
	limited := &io.LimitedReader{R: z, N: maxText}
	lines := json.NewDecoder(limited)
	var out []Entry
	for {
		var e Entry
		switch err := lines.Decode(&e); {
		case limited.N <= 0:
			return out, fmt.Errorf("decisions are larger than %d bytes when they are unpacked", maxText)
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, fmt.Errorf("read decision %d: %w", len(out)+1, err)
		case e.Key() != "" && !e.When().IsZero():
			out = append(out, e)
		}
	}
}
