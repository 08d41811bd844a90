// Package atomicfile writes files that a reader, or the process after a crash, sees whole or not at all.
package atomicfile

import (
	"encoding/json"
	"os"
)

// Write replaces a file. Only its owner may read it. A crash may leave a file with the suffix .new beside it.
func Write(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// WriteJSON replaces a file with the JSON of value.
func WriteJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return Write(path, data)
}
