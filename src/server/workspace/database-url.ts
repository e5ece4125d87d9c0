import { exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';

/** Where the service's database is. */
export type DatabaseLocation =
  | { readonly kind: 'sqlite'; readonly path: string }
  | { readonly kind: 'postgres'; readonly url: string };

const expectedFormat =
  'expected postgres://user:password@host/database, or sqlite:FILE (ODDSLAKE_DATABASE_URL or service.database_url)';

/**
 * Reads `service.database_url`; null: SQLite in the file `byDefault`. Messages never hold the URL, as it holds a password.
 * @throws UsageError for what is neither
 */
export function parseDatabaseUrl(url: string | null, byDefault: string | null): DatabaseLocation {
  if (url === null && byDefault !== null) return { kind: 'sqlite', path: byDefault };
  const text = url?.trim() ?? '';
  const [, scheme, rest] = /^([a-z]+):(.*)$/is.exec(text) ?? [];
  switch (scheme?.toLowerCase()) {
    case 'sqlite':
      // Of sqlite://FILE nobody knows whether its first part is a host.
      if (/^\s*$|\0|^\/\/[^/]/.test(rest!)) throw new UsageError(`The service's database: sqlite: ${noFileReason}`);
      return { kind: 'sqlite', path: rest! };
    case 'postgres':
    case 'postgresql':
      return { kind: 'postgres', url: text };
    default:
      throw new UsageError(`The URL of the service's database is not one that is known: ${expectedFormat}`);
  }
}

const noFileReason = `names no file; ${expectedFormat}`;

/** The service's database cannot be asked now; it may be there again at the next request. */
export class WorkspaceUnavailableError extends OddslakeError {
  constructor(message: string, options?: ErrorOptions) {
    super(exitCodes.unexpected, message, options);
    this.name = 'WorkspaceUnavailableError';
  }
}
