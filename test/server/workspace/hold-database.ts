import { DatabaseSync } from 'node:sqlite';

// A process that holds a write transaction on a SQLite database from its first output until its input ends.
const db = new DatabaseSync(process.argv[2]!);
db.exec('begin immediate');
console.log('held');
process.stdin.resume().on('end', () => {
  db.exec('rollback');
  db.close();
});
