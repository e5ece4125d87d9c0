import { DatabaseSync } from 'node:sqlite';

// A process that is in the midst of a write to a SQLite database, from its first line of output until its input ends.
const db = new DatabaseSync(process.argv[2]!);
db.exec('begin immediate');
console.log('held');
process.stdin.resume().on('end', () => {
  db.exec('rollback');
  db.close();
});
