package region

import "strings"

// Like matches AWS's wildcards: * is any text, ? any one character, \ makes the next one literal. Its running time is
// at most proportional to the product of both lengths.
func Like(pattern, s string) bool {
	p, star, mark, i := 0, -1, 0, 0
	for i < len(s) {
		width, ok := 1, false
		if p < len(pattern) {
			switch {
			case pattern[p] == '*':
				star, mark = p, i
				p++
				continue
			case pattern[p] == '?':
				ok = true
			case pattern[p] == '\\' && p+1 < len(pattern):
				width, ok = 2, pattern[p+1] == s[i]
			default:
				ok = pattern[p] == s[i]
			}
		}
		switch {
		case ok:
			p += width
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
