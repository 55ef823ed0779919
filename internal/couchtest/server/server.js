// The CouchDB-compatible server of the tests: PouchDB Server's engine on a loopback port.
//
//   node server.js MODULES PORT [DIR [HOST]]
//
// MODULES is the directory with node_modules. PORT 0 is a free one; the port is the first line of output. Databases are
// files in DIR, or in memory. HOST is an IP address to listen on. The server ends with its standard input, and so with
// whoever holds the other end.
'use strict';

const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const [modules, port, dir, host = '127.0.0.1'] = process.argv.slice(2);
const need = require('module').createRequire(path.join(path.resolve(modules), 'server.js'));

// A request that PouchDB stumbles over must not end the server.
process.on('unhandledRejection', () => {});
process.stdin.on('end', () => process.exit(0)).resume();

// What is uploaded goes through temporary files, which the engine forgets.
process.env.TMPDIR = fs.mkdtempSync(path.join(dir || os.tmpdir(), 'couchtest-'));
process.on('exit', () => fs.rmSync(process.env.TMPDIR, {recursive: true, force: true}));

let PouchDB = need('pouchdb-core')
  .plugin(need('pouchdb-mapreduce'))
  .plugin(need('pouchdb-replication'));
if (dir) {
  PouchDB = PouchDB.plugin(need('pouchdb-adapter-leveldb')).defaults({adapter: 'leveldb', prefix: path.resolve(dir) + path.sep});
} else {
  PouchDB = PouchDB.plugin(need('pouchdb-adapter-memory')).defaults({adapter: 'memory'});
}
const app = need('express-pouchdb')(PouchDB, {
  inMemoryConfig: true,
  logPath: '/dev/null',
  mode: 'fullCouchDB',
  overrideMode: {exclude: ['routes/fauxton']},
});
const server = http.createServer(app);
server.keepAliveTimeout = 60_000;
server.listen(Number(port), host, () => console.log(server.address().port));
