package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// makeScratch makes an empty ext4 file system of the given size in a sparse file: it takes the host's disk as it is
// written. It needs mke2fs (e2fsprogs, which Debian always has).
func makeScratch(ctx context.Context, path string, size int64) error {
	mke2fs, err := exec.LookPath("mke2fs")
	if err != nil {
		if mke2fs, err = exec.LookPath("/sbin/mke2fs"); err != nil {
			return fmt.Errorf("make the scratch disk: mke2fs is not installed (Debian: apt-get install e2fsprogs): %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the scratch disk: %w", err)
	}
	err = f.Truncate(size)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("make the scratch disk: %w", err)
	}
	// No journal: the disk ends with its pod. Inode tables are not written, the file is all zeros.
	cmd := exec.CommandContext(ctx, mke2fs, "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E",
		"lazy_itable_init=1,nodiscard,root_owner=0:0", path)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the scratch disk: %w: %s", err, said)
	}
	return nil
}
