package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// forgetStart takes the pages of the program's own file out of this process's memory: starting has read almost all of them,
// since the embedded control plane is in the same file, and the controller uses a part. What is read again comes from the page
// cache. It is about what counts as resident, so a failure changes nothing.
func forgetStart() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }()
	var from, to uintptr
	own := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		var start, end uintptr
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); n == 3 {
			from, to, own = start, end, (mode == "r-xp" || mode == "r--p") && strings.HasSuffix(line, " "+self)
			continue
		}
		// Pages that were written, as the linker's are before they become read-only, are nowhere else.
		if own && strings.Join(strings.Fields(line), " ") == "Anonymous: 0 kB" {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
