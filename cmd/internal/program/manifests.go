package program

import (
	"fmt"
	"os"
	"path/filepath"
)

// ManifestFiles returns the manifests of a folder, by extension and name, or the one file; - is stdin.
func ManifestFiles(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	var out []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		files, _ := filepath.Glob(filepath.Join(name, pattern)) // fails only for malformed patterns
		out = append(out, files...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("folder %s holds no .yaml, .yml or .json", name)
	}
	return out, nil
}
