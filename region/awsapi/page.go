package awsapi

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// page is the part of list that a paginated call answers, in the order of key, and the token of what follows. A token
// holds the last key that was told, so that resources that come and go between pages neither repeat nor hide others.
// Without a size the page is as large as most allows.
func page[T any](list []T, size, most int, token string, key func(T) string) ([]T, string, error) {
	if size < 0 || size > most {
		return nil, "", failure(400, "InvalidParameterValue",
			fmt.Sprintf("Value ( %d ) for parameter maxResults is invalid. Expecting a value between 1 and %d.", size, most))
	}
	if size == 0 {
		size = most
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	if token != "" {
		after, err := untoken(token)
		if err != nil {
			return nil, "", err
		}
		i, _ := slices.BinarySearchFunc(list, after+"\x00", func(v T, k string) int { return cmp.Compare(key(v), k) })
		list = list[i:]
	}
	if len(list) <= size {
		return list, "", nil
	}
	list = list[:size]
	return list, base64.RawURLEncoding.EncodeToString([]byte(tokenMark + key(list[size-1]))), nil
}

// tokenMark tells our tokens from anything else.
const tokenMark = "after:"

func untoken(token string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	after, ok := strings.CutPrefix(string(b), tokenMark)
	if err != nil || !ok {
		return "", failure(400, "InvalidNextToken",
			"Unable to parse pagination token: use the nextToken of the previous answer unchanged")
	}
	return after, nil
}
