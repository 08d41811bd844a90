package sandbox

import (
	"bytes"
	"time"
)

// Stored is a line of a container's log, or a part of a long one, as it is stored.
type Stored struct {
	// Nanos is its time. All lines of a pod have different ones, later lines later ones.
	Nanos   int64
	Stderr  bool
	Partial bool // the line goes on in the next one of its stream
	Text    []byte
}

// String is the line as it is stored, without its end.
func (s Stored) String() string {
	stream, mark := "stdout", "F"
	if s.Stderr {
		stream = "stderr"
	}
	if s.Partial {
		mark = "P"
	}
	return time.Unix(0, s.Nanos).UTC().Format(logTime) + " " + stream + " " + mark + " " + string(s.Text)
}

// parseStored reads a line of a file.
func parseStored(b []byte) (Stored, bool) {
	line, ok := bytes.CutSuffix(b, []byte("\n"))
	fields := bytes.SplitN(line, []byte(" "), 4)
	if !ok || len(fields) != 4 {
		return Stored{}, false
	}
	at, err := time.Parse(logTime, string(fields[0]))
	if err != nil {
		return Stored{}, false
	}
	return Stored{
		Nanos: at.UnixNano(), Stderr: string(fields[1]) == "stderr", Partial: string(fields[2]) == "P",
		Text: fields[3],
	}, true
}
