import { type Dialect, PostgresDialect, type PostgresPoolClient } from 'kysely';
import { UsageError } from '../../base/errors.ts';
import { WorkspaceUnavailableError } from './database-url.ts';

/** Maximum connections per process, and timeouts for connecting, for a query and for an idle connection, in ms. */
const connectionsMax = 8;
const connectMsMax = 5_000;
const queryMsMax = 5_000;
const idleMsMax = 30_000;

/** Type IDs of bigint, and of numeric, the type of a sum of bigints. */
const integerTypeIds: readonly number[] = [20, 1700];

/**
 * The dialect of a PostgreSQL database; loads the driver on first use. Does not connect yet.
 * @throws UsageError if the driver cannot parse the URL; the message does not contain the URL, because it contains a
 *   password
 */
export async function openPostgresDialect(url: string): Promise<Dialect> {
  const { default: pg } = await import('pg');
  let description: string;
  try {
    requireEncodedPassword(url);
    const { host, port, database } = new pg.Client({ connectionString: url });
    description = `PostgreSQL at ${host}:${port}, database ${database ?? 'named after the user'}`;
  } catch {
    throw new UsageError(
      "The URL of the service's database is invalid: expected postgres://user:password@host/database, with special characters of user and password encoded as %XX.",
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
    // The driver returns these as text; our values are exact as numbers.
    types: {
      getTypeParser: ((oid: number, format?: 'text') =>
        integerTypeIds.includes(oid)
          ? parseInteger
          : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  });
  // The next query reports a broken idle connection; without a listener the error would end the process.
  pool.on('error', () => {});
  return new PostgresDialect({
    pool: {
      options: {},
      async connect() {
        const client = await pool.connect().catch((error) => {
          throw new WorkspaceUnavailableError(
            `Cannot reach the service's database (${description}): ${toReason(error)}.`,
          );
        });
        return wrapClient(client as unknown as PostgresPoolClient, description);
      },
      end: () => pool.end(),
    },
  });
}

/**
 * Throws if the password has an unencoded character that ends the host of the URL: the rest of the password would become
 * the name of the database, which messages contain.
 */
function requireEncodedPassword(url: string): void {
  const [, authority = '', path = '', rest = ''] = /^[^/]*\/\/([^/?#]*)([^?#]*)(.*)$/s.exec(url) ?? [];
  if (path.includes('@') || (rest.includes('@') && !authority.includes('@')))
    throw new RangeError('an @ after the host');
}

/** A client that reports a lost connection as WorkspaceUnavailableError. */
function wrapClient(client: PostgresPoolClient, description: string): PostgresPoolClient {
  let lost = false;
  const query = async (sql: string, parameters: readonly unknown[]) => {
    try {
      return await client.query(sql, parameters);
    } catch (error) {
      if (!isConnectionLoss(error)) throw error;
      lost = true;
      throw new WorkspaceUnavailableError(
        `The service's database (${description}) does not respond: ${toReason(error)}.`,
      );
    }
  };
  return {
    ...(client.processID === undefined ? {} : { processID: client.processID }),
    query: query as PostgresPoolClient['query'],
    release: (destroy) => client.release(lost || destroy === true),
  };
}

/** SQLSTATE classes: connection exception, insufficient resources, operator intervention, system error. */
const connectionLossClasses = new Set(['08', '53', '57', '58']);

/** Whether the database was unreachable, rather than rejecting the query. */
function isConnectionLoss(error: unknown): boolean {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  // Server errors have a severity; all others are connection errors.
  if (severity === undefined) return true;
  // Read-only: a standby that has not been promoted yet.
  return typeof code === 'string' && (connectionLossClasses.has(code.slice(0, 2)) || code === '25006');
}

/** The reason without the driver's own message, which may contain the URL. */
function toReason(error: unknown): string {
  const { code, severity, message } = error as { code?: unknown; severity?: unknown; message?: unknown };
  // Server messages contain at most the names of the user and the database.
  if (severity !== undefined) return String(message);
  if (/timeout/i.test(String(message))) return 'timeout';
  return typeof code === 'string' ? code : 'the connection ended';
}

function parseInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError('a number in the database is beyond 2^53');
  return value;
}
