package main
func benchGrowth(args []string) error { return nil }
