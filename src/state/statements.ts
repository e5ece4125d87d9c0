import { DatabaseSync, type SQLInputValue } from 'node:sqlite';

/** How long a write may wait for another process's, in ms. */
const busyMsMax = 10_000;

/** A SQLite database of one's own at `path`, with the face that kysely's SqliteDialect asks for. */
export function openStatements(path: string) {
  const db = new DatabaseSync(path);
  db.exec(
    `pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on;`,
  );
  return {
    prepare(sql: string) {
      const statement = db.prepare(sql);
      const values = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[];
      return {
        reader: statement.columns().length > 0,
        all: (parameters: readonly unknown[]) => statement.all(...values(parameters)),
        run: (parameters: readonly unknown[]) => statement.run(...values(parameters)),
        iterate: (parameters: readonly unknown[]) => statement.iterate(...values(parameters)),
      };
    },
    close: () => db.close(),
  };
}
