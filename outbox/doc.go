// Package outbox moves events from a table in PostgreSQL to the pages of a feed,
// each exactly once, and captures the changes of tables as such events.
//
// Applications insert rows into the table, or call feedctl.publish, in the
// transactions in which their data changes. A [Runner] takes rows that were
// committed and publishes them.
//
// # Order
//
// An id is drawn from a sequence when a row is inserted: whichever of two rows
// was inserted later has the greater one. A runner takes the rows that one
// snapshot of the database shows, in the order of their ids, and then those that
// a later snapshot shows. It never waits for an id that is missing, and never
// for the oldest transaction: a row is taken when it can be seen.
//
//   - Rows of one transaction become visible together, and their ids have the
//     order in which they were inserted. They keep it.
//   - If a transaction began after another's commit, its ids are greater, and
//     every snapshot that shows its rows shows the other's, too. So its rows
//     come later: in the same batch by their ids, or in a later one.
//   - If a transaction locks a row of a table (UPDATE, SELECT FOR UPDATE) and then
//     publishes, and another does the same with the same row, the second inserts
//     its event after the first has committed, and the rule above holds for the
//     two events. So the events about one row have the order of its changes.
//     Whoever publishes before the row is locked gives that up.
//
// Other transactions ran at the same time, and have no order that they could know.
// Their rows may be interleaved.
//
// A limit on the number of rows that are taken at once changes nothing: what is
// left has greater ids than what was taken, and so has all that follows from it.
//
// While the rows of one snapshot are being published, those of the next are read:
// all that it shows but the former, which are still there.
//
// # Exactly once
//
// With pages in the same database, rows are deleted and pages written in one
// transaction. There is nothing between the two. If not all of the rows are there to be
// deleted, another runner has moved them, and the transaction is rolled back.
//
// With pages elsewhere, the runner first notes the ids of a batch and a checkpoint,
// which is a new random text, in the database; then it publishes the batch with that
// checkpoint, which the store accepts only after the checkpoint of the batch before;
// then it deletes the rows and notes the next batch, in one transaction. What
// the feed's checkpoint is tells whether a batch that was noted has been
// published, whatever was cut short. A feed whose checkpoint is neither that of the
// batch nor that before it is the work of another database, or of this one
// before it was restored from a backup: [ErrForeign].
//
// Many runners may run. A lease in the database lets one of them work, but nothing
// except liveness depends on it: a runner that slept finds the line of the feed
// locked, or the checkpoint moved.
//
// # Dead rows
//
// A transaction that stays open anywhere in the database keeps deleted rows from
// being vacuumed. To not pass over all of them again and again, a runner remembers
// an id below which no row can appear any more. It is found without a clock: every
// transaction that has drawn an id holds a lock on the table until it ends. So the
// runner reads the last id that was drawn, then lists the transactions that hold
// the lock; when those have ended, all rows up to that id are visible or never
// will be.
package outbox
