import { closeSync, openSync } from 'node:fs';
import type { Dialect } from 'kysely';
import { exitCodes, OddslakeError } from '../core/errors.ts';
import { openStatements } from '../state/statements.ts';
import { WorkspaceUnavailableError } from './database-unavailable.ts';
import { createSqliteDialect, type Statements } from './sqlite-driver.ts';

/** What SQLite says where the file cannot be used now: busy, locked, read-only, input or output, full, cannot be opened. */
const transientCodes = new Set([5, 6, 8, 10, 13, 14]);
const busyCode = 5;

/** The dialect of a SQLite file, made if need be. Throws OddslakeError where it cannot be opened. */
export function openSqliteDialect(path: string): Dialect {
  restrictPermissions(path);
  const writer = openWithRetries(path);
  try {
    const connections = { writer: wrapStatements(writer, path), reader: wrapStatements(openWithRetries(path), path) };
    return createSqliteDialect({ ...connections, isBusy: (error) => isBusy((error as Error).cause ?? error) });
  } catch (error) {
    writer.close();
    throw error;
  }
}

/** A connection that says what keeps it from the file. */
function wrapStatements(statements: ReturnType<typeof openStatements>, path: string): Statements {
  const explain = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      if (!transientCodes.has(toCode(error))) throw error;
      throw new WorkspaceUnavailableError(
        `The service's database ${path} cannot be used: ${(error as Error).message}.`,
        {
          cause: error,
        },
      );
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
const openAttemptsMax = 20;

/** A file that is made is its owner's alone, and so are those that SQLite makes beside it. */
function restrictPermissions(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch {
    // It is there already, or cannot be made, which is told when it is opened.
  }
}

function openWithRetries(path: string, tries = 1): ReturnType<typeof openStatements> {
  try {
    return openStatements(path);
  } catch (error) {
    if (toCode(error) === busyCode && tries < openAttemptsMax) return openWithRetries(path, tries + 1);
    throw new OddslakeError(
      exitCodes.unexpected,
      `The service's database ${path} cannot be opened: ${(error as Error).message}. Check that its folder is there and may be written.`,
      { cause: error },
    );
  }
}

const toExtendedCode = (error: unknown): number => Number((error as { errcode?: unknown }).errcode);
const toCode = (error: unknown): number => toExtendedCode(error) & 0xff;

/** What was read in a transaction before another process wrote stays out of date, however long it waits. */
const busySnapshotCode = 517;
const isBusy = (error: unknown): boolean => toCode(error) === busyCode && toExtendedCode(error) !== busySnapshotCode;
