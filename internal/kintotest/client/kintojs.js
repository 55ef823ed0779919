// kinto.js, the offline-first client of Kinto, as a process:
//
//   node kintojs.js MODULES ROOT BUCKET COLLECTION USER PASSWORD
//
// MODULES is the directory with node_modules, ROOT the URL of the server with /v1. A line of input is [METHOD, ARGUMENT]
// of the client's collection; the answer is a line with the result. The process ends with its standard input.
'use strict';

const path = require('path');
const readline = require('readline');
const [modules, remote, bucket, collection, user, password] = process.argv.slice(2);
const need = require('module').createRequire(path.join(path.resolve(modules), 'kintojs.js'));

need('fake-indexeddb/auto');
const {default: Kinto} = need('kinto/dist/kinto.min.js');
const headers = {Authorization: 'Basic ' + Buffer.from(user + ':' + password).toString('base64')};
const copy = new Kinto({remote, bucket, headers}).collection(collection, {idSchema: {generate: () => '', validate: () => true}});

(async () => {
  for await (const line of readline.createInterface({input: process.stdin})) {
    const [method, argument] = JSON.parse(line);
    console.log(JSON.stringify(await copy[method](argument ?? undefined)));
  }
  process.exit(0);
})();
