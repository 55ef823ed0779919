// Package task implements the commands that are also jobs, without their command lines. Each has a
// type whose fields are the arguments and flags; an [Env] holds what a run needs besides these. The
// Check methods return all errors at once, joined by [errors.Join]; [Errors] splits them.
package task
