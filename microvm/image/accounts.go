package image

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Identity is the user that a process runs as.
type Identity struct {
	UID, GID uint32
	Groups   []uint32 // supplementary groups that the image's /etc/group gives the user; sorted, without GID
	Home     string   // "/" if the image has none
}

// account is a line of /etc/passwd: name:password:UID:GID:comment:directory:shell.
type account struct {
	name     string
	uid, gid uint32
	home     string
}

// identity resolves the user: the container's runAsUser, or else the image's USER, or else root. Names are looked up in
// the image alone.
func (i *Image) identity(c Container) (Identity, error) {
	user, group, _ := strings.Cut(i.Config.User, ":")
	if c.RunAsUser != nil {
		user, group = strconv.FormatInt(*c.RunAsUser, 10), ""
	}
	if user == "" {
		user = "0"
	}
	a, err := i.account(user)
	if err != nil {
		return Identity{}, err
	}
	if c.RunAsNonRoot && a.uid == 0 {
		return Identity{}, fmt.Errorf("%w (user %q); set runAsUser, or USER in the image", ErrRoot, user)
	}
	who := Identity{UID: a.uid, GID: a.gid, Home: a.home, Groups: i.groupsOf(a)}
	switch {
	case c.RunAsGroup != nil:
		if *c.RunAsGroup < 0 || *c.RunAsGroup > math.MaxUint32-1 {
			return Identity{}, fmt.Errorf("runAsGroup %d is not a group ID", *c.RunAsGroup)
		}
		who.GID = uint32(*c.RunAsGroup)
	case group != "":
		if who.GID, err = i.group(group); err != nil {
			return Identity{}, err
		}
	}
	who.Groups = slices.DeleteFunc(who.Groups, func(g uint32) bool { return g == who.GID })
	return who, nil
}

// account looks up a user by name or number. A number needs no entry.
func (i *Image) account(user string) (account, error) {
	uid, err := number(user)
	numeric := err == nil
	if err != nil && !errors.Is(err, strconv.ErrSyntax) {
		return account{}, fmt.Errorf("user %q is not a user ID: they go from 0 to %d", user, uint32(math.MaxUint32-1))
	}
	for f := range fields(i.accounts.Passwd) {
		if len(f) < 4 || !numeric && f[0] != user {
			continue
		}
		id, err1 := number(f[2])
		gid, err2 := number(f[3])
		if err1 != nil || err2 != nil || numeric && id != uid {
			continue
		}
		a := account{name: f[0], uid: id, gid: gid, home: "/"}
		if len(f) > 5 && f[5] != "" {
			a.home = f[5]
		}
		return a, nil
	}
	if numeric {
		return account{uid: uid, home: "/"}, nil
	}
	return account{}, fmt.Errorf("user %q is not in the image's /etc/passwd; use a number, or add the user to the image",
		user)
}

func (i *Image) group(group string) (uint32, error) {
	if gid, err := number(group); err == nil {
		return gid, nil
	}
	for f := range fields(i.accounts.Group) {
		if len(f) > 2 && f[0] == group {
			if gid, err := number(f[2]); err == nil {
				return gid, nil
			}
		}
	}
	return 0, fmt.Errorf("group %q is not in the image's /etc/group; use a number, or add the group to the image", group)
}

// groupsOf returns the groups that list the user (name:password:GID:users).
func (i *Image) groupsOf(a account) []uint32 {
	var groups []uint32
	for f := range fields(i.accounts.Group) {
		if a.name == "" || len(f) < 4 || !slices.Contains(strings.Split(f[3], ","), a.name) {
			continue
		}
		if gid, err := number(f[2]); err == nil {
			groups = append(groups, gid)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// number parses a user or group ID: 0 to 2^32-2, since the kernel reads 2^32-1 as "leave unchanged".
func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32)
	if err == nil && n == math.MaxUint32 {
		err = strconv.ErrRange
	}
	return uint32(n), err
}

// fields iterates over the colon-separated fields of each line.
func fields(file []byte) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for s := bufio.NewScanner(bytes.NewReader(file)); s.Scan(); {
			if !yield(strings.Split(s.Text(), ":")) {
				return
			}
		}
	}
}
