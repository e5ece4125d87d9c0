import { closeSync, openSync } from 'node:fs';
import type { Dialect } from 'kysely';
import { exitCodes, OddslakeError } from '../core/errors.ts';
import { openStatements } from '../state/statements.ts';
import { WorkspaceUnavailable } from './database-unavailable.ts';
import { type Statements, sqliteDialectOver } from './sqlite-driver.ts';

/** What SQLite says where the file cannot be used now: busy, locked, read-only, input or output, full, cannot be opened. */
const passing = new Set([5, 6, 8, 10, 13, 14]);
const busy = 5;

/** The dialect of a SQLite file, made if need be. Throws OddslakeError where it cannot be opened. */
export function sqliteDialect(path: string): Dialect {
  makePrivate(path);
  const writer = opened(path);
  try {
    const connections = { writer: explained(writer, path), reader: explained(opened(path), path) };
    return sqliteDialectOver({ ...connections, isBusy: (error) => isBusy((error as Error).cause ?? error) });
  } catch (error) {
    writer.close();
    throw error;
  }
}

/** A connection that says what keeps it from the file. */
function explained(statements: ReturnType<typeof openStatements>, path: string): Statements {
  const explain = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (!passing.has(codeOf(error))) throw error;
      throw new WorkspaceUnavailable(`The service's database ${path} cannot be used: ${(error as Error).message}.`, {
        cause: error,
      });
    }
  };
  return {
    close: statements.close,
    prepare(sql) {
      const { reader, all, run } = explain(() => statements.prepare(sql));
      return {
        reader,
        all: (parameters) => explain(() => all(parameters)),
        // What failed is told by the error that came before, not by this one.
        run: (parameters) =>
          sql === 'rollback' && !statements.isTransaction()
            ? { changes: 0, lastInsertRowid: 0 }
            : explain(() => run(parameters)),
      };
    },
  };
}

/** Two processes that start a file at once may be told that it is busy in spite of the time that they would wait. */
const triesMax = 20;

/** A file that is made is its owner's alone, and so are those that SQLite makes beside it. */
function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // It is there already, or cannot be made, which is told when it is opened.
  }
}

function opened(path: string, tries = 1): ReturnType<typeof openStatements> {
  try {
    return openStatements(path);
  } catch (error) {
    if (codeOf(error) === busy && tries < triesMax) return opened(path, tries + 1);
    throw new OddslakeError(
      exitCodes.unexpected,
      `The service's database ${path} cannot be opened: ${(error as Error).message}. Check that its folder is there and may be written.`,
      { cause: error },
    );
  }
}

const extendedCodeOf = (error: unknown): number => Number((error as { errcode?: unknown }).errcode);
const codeOf = (error: unknown): number => extendedCodeOf(error) & 0xff;

/** What was read in a transaction before another process wrote stays out of date, however long it waits. */
const busySnapshot = 517;
const isBusy = (error: unknown): boolean => codeOf(error) === busy && extendedCodeOf(error) !== busySnapshot;
