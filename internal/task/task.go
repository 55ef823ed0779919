// Package task has the commands that are also jobs, without their command lines: a type for
// each, whose fields are the arguments and flags. What a run needs besides them is in an [Env].
// Their Check methods return all errors at once, joined by [errors.Join]; [Errors] returns each.
package task
