// Package task has the commands that are also jobs, without their command lines: a type for
// each, whose fields are the arguments and flags. What a run needs beside them is in an [Env].
// Their methods Check return all that is wrong at once, as [errors.Join] does; [Errors] has each.
package task
