import type { Database } from '../../../src/archive/journal/database.ts';

/** Makes a change of the machine's, or dies in it. */
type Changing = <T>(what: string, work: () => T) => T;

/**
 * A database whose transactions are changes of the machine's. `alive` throws once its process is dead; `onCommit` looks
 * at what a transaction leaves before anybody else can.
 */
export function watched(db: Database, alive: () => void, change: Changing, onCommit: (db: Database) => void): Database {
  let depth = 0;
  const outermost = <T>(what: string, work: () => T): T => {
    alive();
    if (depth > 0) return work();
    depth++;
    try {
      const done = change(what, () => {
        const result = work();
        onCommit(db);
        return result;
      });
      return done;
    } finally {
      depth--;
    }
  };
  return {
    run: (sql, ...values) => outermost('run', () => db.run(sql, ...values)),
    script: (sql) => outermost('script', () => db.script(sql)),
    transaction: (work) => outermost('commit', () => db.transaction(work)),
    all(sql, ...values) {
      alive();
      return db.all(sql, ...values);
    },
    one(sql, ...values) {
      alive();
      return db.one(sql, ...values);
    },
    iterate(sql, ...values) {
      alive();
      return db.iterate(sql, ...values);
    },
    snapshot(work) {
      alive();
      return db.snapshot(work);
    },
    close: () => db.close(),
  };
}
