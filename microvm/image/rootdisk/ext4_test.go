package rootdisk

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// e2fsprogs find no error in the ext4 file system, and it contains what the layers contain.
func TestDiskIsSoundExt4(t *testing.T) {
	e2fsck, err := exec.LookPath("/usr/sbin/e2fsck")
	if err != nil {
		t.Skip("no e2fsck: install Debian's e2fsprogs")
	}
	ping := file("bin/ping", "#!ping")
	ping.Mode, ping.Uid, ping.Gid, ping.Format = 0o4755, 7, 70000, tar.FormatPAX
	ping.PAXRecords = map[string]string{
		paxXattr + "security.capability":    "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		paxXattr + "trusted.overlay.opaque": "y",
	}
	img, err := Read(t.Context(), []Layer{
		layer(t, dir("etc"), file("etc/passwd", "app:x:10:20::/:\n"), file("gone", "x"),
			file("big", strings.Repeat("0123456789", 300_000))),
		layer(t, file(".wh.gone", ""), ping, hardlink("bin/ping6", "bin/ping"), symlink("sbin", "bin"),
			symlink("long", strings.Repeat("x/", 100)+"y"), dir("lost+found")),
	}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "disk.ext4")
	disk, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	accounts, err := img.Ext4(t.Context(), disk)
	if err != nil {
		t.Fatal(err)
	}
	if string(accounts.Passwd) != "app:x:10:20::/:\n" || len(accounts.Group) != 0 {
		t.Errorf("accounts: %q, %q", accounts.Passwd, accounts.Group)
	}
	if info, err := disk.Stat(); err != nil || info.Size() > img.DiskBytes() {
		t.Errorf("the disk has %d bytes (%v), the estimate was %d", info.Size(), err, img.DiskBytes())
	}
	// tar2ext4 leaves the bits after the last inode of the bitmap clear; the kernel does not read them.
	out, _ := exec.Command(e2fsck, "-fn", path).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "? no") && !strings.HasPrefix(line, "Padding at end of inode bitmap") {
			t.Errorf("e2fsck: %s", line)
		}
	}
	if !strings.Contains(string(out), "Pass 5") {
		t.Fatalf("e2fsck: %s", out)
	}
	debugfs := func(request string) string {
		out, err := exec.Command("/usr/sbin/debugfs", "-R", request, path).Output()
		if err != nil {
			t.Fatalf("debugfs %s: %v", request, err)
		}
		return string(out)
	}
	if got := debugfs("cat /big"); len(got) != 3_000_000 || !strings.HasPrefix(got, "0123456789") {
		t.Errorf("big: %d bytes", len(got))
	}
	stat := debugfs("stat /bin/ping6")
	for _, want := range []string{"Mode:  04755", "User:     7", "Group: 70000", "Links: 2", "security.capability"} {
		if !strings.Contains(stat, want) {
			t.Errorf("stat of ping6 does not say %q:\n%s", want, stat)
		}
	}
	if strings.Contains(stat, "overlay") {
		t.Errorf("an attribute meant for overlayfs was kept:\n%s", stat)
	}
	if ls := debugfs("ls -p /"); strings.Contains(ls, "/gone/") || !strings.Contains(ls, "/sbin/") {
		t.Errorf("root directory:\n%s", ls)
	}
}
