package jobs

// NewScheduler returns a scheduler on a database that a test has opened.
var NewScheduler = newScheduler
