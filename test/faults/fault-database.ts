import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { type OpenDatabase, openDatabase } from '../../src/archive/journal/database.ts';
import { toStateFilePath } from '../../src/archive/journal/state.ts';
import type { Faults } from './fault-points.ts';

const errcodes = { ENOSPC: 13, EIO: 778 } as const;
const words = { ENOSPC: 'database or disk is full', EIO: 'disk I/O error' } as const;

/** As node:sqlite throws it. */
const sqliteError = (code: keyof typeof errcodes): Error =>
  Object.assign(new Error(words[code]), {
    code: 'ERR_SQLITE_ERROR',
    errcode: errcodes[code],
    errstr: words[code],
  });

/**
 * The state database with fault injection: each begin, commit, statement and setup is one fault point. Calls `onChange`
 * with the connection whenever something has become durable.
 */
export function faultDatabase(faults: Faults, onChange: (db: DatabaseSync) => void = () => {}): OpenDatabase {
  class Connection extends DatabaseSync {
    readonly #strike = <T>(name: string, work: () => T): T =>
      faults.point({
        name,
        work: () => {
          const result = work();
          if (!this.isTransaction) onChange(this);
          return result;
        },
        takesSpace: true,
        failure: (code) => {
          // SQLite rolls back by itself if it can no longer write.
          if (code === 'EIO' && this.isTransaction) super.exec('rollback');
          return sqliteError(code);
        },
      });

    override exec(sql: string): void {
      // Both only read what is already on disk.
      if (sql === 'begin') super.exec(sql);
      else if (sql === 'rollback') {
        if (!faults.isDead) super.exec(sql);
      } else this.#strike(nameOf(sql), () => super.exec(sql));
    }

    override prepare(sql: string): StatementSync {
      const statement = super.prepare(sql);
      const run = statement.run.bind(statement);
      statement.run = ((...values: SQLInputValue[]) => this.#strike(nameOf(sql), () => run(...values))) as typeof run;
      return statement;
    }

    override close(): void {
      // An uncommitted transaction stays uncommitted.
      if (this.isOpen) super.close();
    }
  }
  return (path, busyMsMax) =>
    openDatabase(path, busyMsMax, (at) => faults.point({ ...openCalls, work: () => new Connection(at) }));
}

const openCalls = { name: 'sql open', takesSpace: true, failure: sqliteError };

const nameOf = (sql: string): string => `sql ${sql.trim().split(/\s+/).slice(0, 3).join(' ')}`;

const commitStatements = ['', '-wal', '-journal'];

/** Copies the state database of an archive's private folder as a kill or a power loss at this moment would leave it. */
export function copyState(fromPrivate: string, toPrivate: string): void {
  for (const ending of commitStatements) {
    const at = toStateFilePath(fromPrivate) + ending;
    if (existsSync(at)) copyFileSync(at, toStateFilePath(toPrivate) + ending);
    else rmSync(toStateFilePath(toPrivate) + ending, { force: true });
  }
  // SQLite rebuilds it from the log; one from another time would be wrong.
  rmSync(`${toStateFilePath(toPrivate)}-shm`, { force: true });
}

/** Makes everything that this process began in a state look like the work of a dead process, as after a crash. */
export function abandonState(root: string, deadPid: number): void {
  const path = toStateFilePath(join(root, '.oddslake'));
  if (!existsSync(path)) return;
  const db = new DatabaseSync(path);
  if (db.prepare("select 1 from sqlite_master where name = 'runs'").get() !== undefined)
    db.prepare('update runs set pid = ? where pid = ?').run(deadPid, process.pid);
  db.close();
}
