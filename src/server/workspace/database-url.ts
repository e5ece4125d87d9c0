import { exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';

/** Location of the service's database. */
export type DatabaseLocation =
  | { readonly kind: 'sqlite'; readonly path: string }
  | { readonly kind: 'postgres'; readonly url: string };

const expectedFormat =
  'expected postgres://user:password@host/database, or sqlite:FILE (ODDSLAKE_DATABASE_URL or service.database_url)';

/**
 * Parses `service.database_url`; null selects the SQLite file `byDefault`. Messages never contain the URL, because it
 * contains a password.
 * @throws UsageError for an unknown or malformed URL
 */
export function parseDatabaseUrl(url: string | null, byDefault: string | null): DatabaseLocation {
  if (url === null && byDefault !== null) return { kind: 'sqlite', path: byDefault };
  const text = url?.trim() ?? '';
  const [, scheme, rest] = /^([a-z]+):(.*)$/is.exec(text) ?? [];
  switch (scheme?.toLowerCase()) {
    case 'sqlite':
      // sqlite://FILE is ambiguous: its first part may be a host.
      if (/^\s*$|\0|^\/\/[^/]/.test(rest!))
        throw new UsageError(`The URL of the service's database is invalid: sqlite: ${noFileReason}`);
      return { kind: 'sqlite', path: rest! };
    case 'postgres':
    case 'postgresql':
      return { kind: 'postgres', url: text };
    default:
      throw new UsageError(`The URL of the service's database is invalid: ${expectedFormat}`);
  }
}

const noFileReason = `names no file; ${expectedFormat}`;

/** The service's database is unavailable; the next request may find it available again. */
export class WorkspaceUnavailableError extends OddslakeError {
  constructor(message: string, options?: ErrorOptions) {
    super(exitCodes.unexpected, message, options);
    this.name = 'WorkspaceUnavailableError';
  }
}
