package fargate

// glob reports whether text fits a pattern in which * stands for any characters and ? for one; all others for themselves.
// It takes at most len(pattern) * len(text) steps.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	i, j := 0, 0
	star, after := -1, 0 // the last * seen, and where in the text what follows it was tried last
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, after = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0: // let the * stand for one character more
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
