import { DatabaseSync, type SQLInputValue } from 'node:sqlite';

/** How long a write may wait for another process's, in ms. */
const busyMsMax = 10_000;

/** Statements that are kept prepared: preparing one takes longer than most of what is asked. */
const keptMax = 100;

/** A SQLite database of one's own at `path`, with the face that kysely's SqliteDialect asks for. */
export function openStatements(path: string) {
  const db = new DatabaseSync(path);
  db.exec(
    `pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on;`,
  );
  const values = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[];
  const prepare = (sql: string) => {
    const statement = db.prepare(sql);
    return {
      reader: statement.columns().length > 0,
      all: (parameters: readonly unknown[]) => statement.all(...values(parameters)),
      run: (parameters: readonly unknown[]) => statement.run(...values(parameters)),
      // A statement of its own: one that is being walked must not be started again.
      iterate: (parameters: readonly unknown[]) => db.prepare(sql).iterate(...values(parameters)),
    };
  };
  const kept = new Map<string, ReturnType<typeof prepare>>();
  return {
    prepare(sql: string) {
      const held = kept.get(sql);
      if (held !== undefined) return held;
      if (kept.size >= keptMax) kept.clear();
      const made = prepare(sql);
      kept.set(sql, made);
      return made;
    },
    /** Whether one is open: a full disk ends it before anybody says so. */
    isTransaction: () => db.isTransaction,
    close: () => db.close(),
  };
}
