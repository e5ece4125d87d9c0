import { type Dialect, PostgresDialect, type PostgresPoolClient } from 'kysely';
import { UsageError } from '../../base/errors.ts';
import { WorkspaceUnavailableError } from './database-url.ts';

/** Connections of one process, and how long one is waited for, asked, and kept without work, in ms. */
const connectionsMax = 8;
const connectMsMax = 5_000;
const queryMsMax = 5_000;
const idleMsMax = 30_000;

const int8TypeId = 20;

/**
 * The dialect of a PostgreSQL database, its driver loaded only here. No connection is made yet.
 * @throws UsageError for a URL that the driver cannot read; its text is in no message, as it holds a password
 */
export async function openPostgresDialect(url: string): Promise<Dialect> {
  const { default: pg } = await import('pg');
  let told: string;
  try {
    requireEncodedPassword(url);
    const { host, port, database } = new pg.Client({ connectionString: url });
    told = `PostgreSQL at ${host}:${port}, database ${database ?? 'as its user'}`;
  } catch {
    throw new UsageError(
      "The URL of the service's database cannot be read: expected postgres://user:password@host/database, with what is special in user and password as %XX.",
    );
  }
  const pool = new pg.Pool({
    connectionString: url,
    max: connectionsMax,
    connectionTimeoutMillis: connectMsMax,
    idleTimeoutMillis: idleMsMax,
    query_timeout: queryMsMax,
    statement_timeout: queryMsMax,
    application_name: 'oddslake',
    keepAlive: true,
    // The driver gives a bigint as text; none of ours is beyond what a number holds exactly.
    types: {
      getTypeParser: ((oid: number, format?: 'text') =>
        oid === int8TypeId ? parseInteger : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  });
  // A connection at rest that breaks is no news until somebody asks; unheard it would end the process.
  pool.on('error', () => {});
  return new PostgresDialect({
    pool: {
      options: {},
      async connect() {
        const client = await pool.connect().catch((error) => {
          throw new WorkspaceUnavailableError(
            `The service's database (${told}) cannot be reached: ${toReason(error)}.`,
          );
        });
        return wrapClient(client as unknown as PostgresPoolClient, told);
      },
      end: () => pool.end(),
    },
  });
}

/**
 * Throws where a user's password holds what ends the address of a host: the rest of it would be taken for the name of a
 * database, and told.
 */
function requireEncodedPassword(url: string): void {
  const [, authority = '', path = '', rest = ''] = /^[^/]*\/\/([^/?#]*)([^?#]*)(.*)$/s.exec(url) ?? [];
  if (path.includes('@') || (rest.includes('@') && !authority.includes('@')))
    throw new RangeError('an @ behind the host');
}

/** A connection whose loss is told as such. */
function wrapClient(client: PostgresPoolClient, told: string): PostgresPoolClient {
  let lost = false;
  const query = async (sql: string, parameters: readonly unknown[]) => {
    try {
      return await client.query(sql, parameters);
    } catch (error) {
      if (!isConnectionLoss(error)) throw error;
      lost = true;
      throw new WorkspaceUnavailableError(`The service's database (${told}) does not answer: ${toReason(error)}.`);
    }
  };
  return {
    ...(client.processID === undefined ? {} : { processID: client.processID }),
    query: query as PostgresPoolClient['query'],
    release: (destroy) => client.release(lost || destroy === true),
  };
}

/** Classes of SQLSTATE: connection, not enough of something, stopped by its operator, its system. */
const connectionLossClasses = new Set(['08', '53', '57', '58']);

/** Whether the database could not be asked, rather than refused what it was asked. */
function isConnectionLoss(error: unknown): boolean {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  // What comes from the server has a severity; all else is the way there.
  if (severity === undefined) return true;
  // Read-only: a standby that took no writes yet.
  return typeof code === 'string' && (connectionLossClasses.has(code.slice(0, 2)) || code === '25006');
}

/** Why, without what the driver says besides: a message of its own may hold the address as it was given. */
function toReason(error: unknown): string {
  const { code, severity, message } = error as { code?: unknown; severity?: unknown; message?: unknown };
  // The server's own words name the user or the database at most.
  if (severity !== undefined) return String(message);
  if (/timeout/i.test(String(message))) return 'no answer in time';
  return typeof code === 'string' ? code : 'the connection ended';
}

function parseInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError('a number in the database is beyond 2^53');
  return value;
}
