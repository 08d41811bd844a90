// Package glob matches patterns with the wildcards * and ?.
package glob

// Match reports whether text matches a pattern in which * stands for any characters and ? for one. It takes at most
// len(pattern) * len(text) steps: on a mismatch it goes back to the last * only, which then matches one character more.
func Match(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	i, j := 0, 0
	star, after := -1, 0 // the last * seen, and where in the text its remainder was last tried
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, after = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0: // let the * match one character more
			after++
			i, j = star+1, after
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
