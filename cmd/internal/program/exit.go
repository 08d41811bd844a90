package program

import "errors"

// Exit codes, as `nodeless help exit-codes` says.
const (
	exitOK          = 0
	ExitDifferent   = 1
	ExitFailure     = 2
	ExitCannotWork  = 3
	ExitInterrupted = 130
)

// ExitError carries an exit code through cobra.
type ExitError struct {
	Code int
	Err  error // printed before the program exits; nil if there is nothing left to print
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return "exit"
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit code that an error carries, and what is left to print of it.
func ExitCode(err error) (code int, say error) {
	var e *ExitError
	switch {
	case err == nil:
		return exitOK, nil
	case errors.As(err, &e):
		return e.Code, e.Err
	}
	return ExitFailure, err
}
