import { closeSync, openSync } from 'node:fs';
import { type Dialect, SqliteDialect } from 'kysely';
import { exitCodes, OddslakeError } from '../core/errors.ts';
import { openStatements } from '../state/statements.ts';
import { WorkspaceUnavailable } from './unavailable.ts';

/** What SQLite says where the file cannot be used now: busy, locked, read-only, input or output, full, cannot be opened. */
const passing = new Set([5, 6, 8, 10, 13, 14]);

/** The dialect of a SQLite file, made if need be. Throws OddslakeError where it cannot be opened. */
export function sqliteDialect(path: string): Dialect {
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
  makePrivate(path);
  const database = opened(path);
  return new SqliteDialect({
    database: {
      close: () => database.close(),
      prepare(sql) {
        const statement = explain(() => database.prepare(sql));
        return {
          reader: statement.reader,
          all: (parameters) => explain(() => statement.all(parameters)),
          // What failed is told by the error that came before, not by this one.
          run: (parameters) =>
            sql === 'rollback' && !database.isTransaction()
              ? { changes: 0, lastInsertRowid: 0 }
              : explain(() => statement.run(parameters)),
          iterate: (parameters) => explain(() => statement.iterate(parameters)),
        };
      },
    },
  });
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
    if (codeOf(error) === 5 && tries < triesMax) return opened(path, tries + 1);
    throw new OddslakeError(
      exitCodes.unexpected,
      `The service's database ${path} cannot be opened: ${(error as Error).message}. Check that its folder is there and may be written.`,
      { cause: error },
    );
  }
}

const codeOf = (error: unknown): number => Number((error as { errcode?: unknown }).errcode) & 0xff;
