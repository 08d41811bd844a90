package cloud

import "time"

// Observer is told what a provider does, for metrics. Its methods are safe for concurrent use and quick.
type Observer interface {
	// Call is told of each call of a Provider's method, by the method's name.
	Call(provider, method string, took time.Duration, err error)
	// Batch is told of each call to the cloud that was made for several callers: how long the first of them waited.
	Batch(call string, waited time.Duration, size int)
	// UserData is told how large a class's user data are.
	UserData(class string, bytes int)
}

// Observed is a provider that tells an Observer. Observe is called before all else.
type Observed interface{ Observe(Observer) }
