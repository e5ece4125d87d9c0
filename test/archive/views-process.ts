import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

// A process in an archive's folder: runs a file of views there, as a reader would, then the statements of its arguments,
// and prints the rows of each as JSON; of one that fails a row with the error.
// Arguments: the file of views, the statements.

const [views, ...statements] = process.argv.slice(2);
const duckdb = await (await DuckDBInstance.create(':memory:', { threads: '2' })).connect();
for (const time of [1, 2]) {
  // A notebook runs its cells again.
  const read = await duckdb.extractStatements(readFileSync(views!, 'utf8'));
  if (time === 1 && read.count < 2) throw new Error(`${views} holds no statements`);
  for (let i = 0; i < read.count; i++) await (await read.prepare(i)).run();
}
const results: unknown[] = [];
for (const sql of statements) {
  const rows = await duckdb.runAndReadAll(sql).then(
    (reader) => reader.getRowObjectsJson(),
    (error: unknown) => [{ error: String(error) }],
  );
  results.push(rows);
}
process.stdout.write(JSON.stringify(results));
