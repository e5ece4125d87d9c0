import type { Database } from '../../../src/archive/journal/database.ts';

/** Makes a change on the machine, or dies in it. */
type MakeChange = <T>(description: string, work: () => T) => T;

/**
 * A database whose transactions are changes on the machine. `alive` throws once its process is dead; `onCommit` sees
 * the result of a transaction before anything else.
 */
export function openWatchedDatabase(
  db: Database,
  checkAlive: () => void,
  change: MakeChange,
  onCommit: (db: Database) => void,
): Database {
  let depth = 0;
  const outermost = <T>(description: string, work: () => T): T => {
    checkAlive();
    if (depth > 0) return work();
    depth++;
    try {
      const outcome = change(description, () => {
        const result = work();
        onCommit(db);
        return result;
      });
      return outcome;
    } finally {
      depth--;
    }
  };
  return {
    run: (sql, ...values) => outermost('run', () => db.run(sql, ...values)),
    script: (sql) => outermost('script', () => db.script(sql)),
    transaction: (work) => outermost('commit', () => db.transaction(work)),
    all(sql, ...values) {
      checkAlive();
      return db.all(sql, ...values);
    },
    rows(sql, ...values) {
      checkAlive();
      return db.rows(sql, ...values);
    },
    one(sql, ...values) {
      checkAlive();
      return db.one(sql, ...values);
    },
    iterate(sql, ...values) {
      checkAlive();
      return db.iterate(sql, ...values);
    },
    snapshot(work) {
      checkAlive();
      return db.snapshot(work);
    },
    close: () => db.close(),
    [Symbol.dispose]: () => db.close(),
  };
}
