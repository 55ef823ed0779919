// Package outbox moves events from a table in PostgreSQL to the pages of a feed,
// each exactly once, and captures the changes of tables as such events.
//
// Applications insert rows into the table, or call feedctl.publish, in the
// transactions in which their data changes. A [Runner] takes committed rows and
// publishes them.
//
// # Order
//
// An id is drawn from a sequence when a row is inserted: of two rows, the one
// inserted later has the greater id. A runner takes the rows visible in one
// snapshot of the database, in the order of their ids, and then those visible in a
// later snapshot. It never waits for a missing id or for the oldest transaction: a
// row is taken as soon as it is visible.
//
//   - Rows of one transaction become visible together, and their ids are in the
//     order in which they were inserted. That order is kept.
//   - If a transaction began after another's commit, its ids are greater, and
//     every snapshot that shows its rows shows the other's, too. So its rows
//     come later: in the same batch by their ids, or in a later batch.
//   - If a transaction locks a row of a table (UPDATE, SELECT FOR UPDATE) and then
//     publishes, and another does the same with the same row, the second inserts
//     its event after the first has committed, and the rule above applies to the
//     two events. So the events about one row are in the order of its changes.
//     This does not hold for a transaction that publishes before it locks the row.
//
// All other transactions are concurrent and have no order that they could observe.
// Their rows may be interleaved.
//
// A limit on the number of rows in a batch does not change the order: the rows
// left have greater ids than those taken, and so do all rows that depend on the
// rows left.
//
// While the rows of one snapshot are being published, the next snapshot is read.
// The rows being published are still in the table, but are left out.
//
// # Exactly once
//
// With pages in the same database, rows are deleted and pages written in one
// transaction. If some of the rows are missing when they are to be deleted,
// another runner has moved them, and the transaction is rolled back.
//
// With pages elsewhere, the runner first records in the database the ids of a
// batch and a checkpoint, which is a new random string; then it publishes the
// batch with that checkpoint, which the producer accepts only after the checkpoint
// of the previous batch; then it deletes the rows and records the next batch, in
// one transaction. After an interruption, the feed's checkpoint shows whether the
// recorded batch was published. If it is the checkpoint of neither this batch nor
// the batch before, the feed was written by another database, or by this one
// before it was restored from a backup, and the error matches [ErrForeign].
//
// Any number of runners may run. A lease in the database lets one of them work,
// but only liveness depends on the lease: a runner that was suspended finds the
// row of the feed locked, or the checkpoint changed.
//
// # Dead rows
//
// A transaction that stays open anywhere in the database keeps deleted rows from
// being vacuumed. To avoid scanning all deleted rows each time, a runner keeps a
// watermark: an id below which no row can appear any more. Finding it needs no
// clock: every transaction that has drawn an id holds a lock on the table until it
// ends. The runner reads the last id drawn, then lists the transactions that hold
// the lock; when those have ended, all rows up to that id are visible or never
// will be.
package outbox
