package check

func (j *judge) together() {}

type machine struct{}
type places struct{}
