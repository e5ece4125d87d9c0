import { DatabaseSync, type SQLInputValue } from 'node:sqlite';

/** How long the opening may wait for another process, in ms. */
const busyMsMax = 10_000;

/** Statements that are kept prepared: preparing one takes longer than most of what is asked. */
const statementsMax = 100;

/**
 * A connection to a SQLite database of one's own at `path`. Once it is open no statement waits for another process: the
 * whole of ours would stand still meanwhile.
 */
export function openStatements(path: string) {
  const db = new DatabaseSync(path);
  try {
    db.exec(
      `pragma busy_timeout = ${busyMsMax}; pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on;`,
    );
    db.exec('pragma busy_timeout = 0;');
  } catch (error) {
    db.close();
    throw error;
  }
  const values = (parameters: readonly unknown[]) => parameters as readonly SQLInputValue[];
  const prepare = (sql: string) => {
    const statement = db.prepare(sql);
    return {
      reader: statement.columns().length > 0,
      all: (parameters: readonly unknown[]) => statement.all(...values(parameters)),
      run: (parameters: readonly unknown[]) => statement.run(...values(parameters)),
    };
  };
  const kept = new Map<string, ReturnType<typeof prepare>>();
  return {
    prepare(sql: string) {
      const held = kept.get(sql);
      if (held !== undefined) return held;
      if (kept.size >= statementsMax) kept.clear();
      const made = prepare(sql);
      kept.set(sql, made);
      return made;
    },
    /** Whether one is open: a full disk ends it before anybody says so. */
    isTransaction: () => db.isTransaction,
    close: () => db.close(),
  };
}
