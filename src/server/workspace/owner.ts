import { createHash } from 'node:crypto';
import type { Transaction } from 'kysely';
import type { KeyScope } from '../../contract/key-scopes.ts';
import type { OwnerColumns, Tables } from './tables.ts';

/** The objects that a token can access: those created with tokens of the same user and workspace. */
export const toOwnerColumns = ({ user, workspace }: User): OwnerColumns => ({
  owner: toColumn(user),
  workspace: toColumn(workspace ?? ''),
});

/** A PostgreSQL index row is limited to 2,704 bytes: enough for two of these and a name. */
const ownerBytesMax = 400;
const digestPrefix = 'sha256:';

/** The text, or its digest if it is long; no text can equal a digest. */
const toColumn = (text: string): string =>
  Buffer.byteLength(text) <= ownerBytesMax && !text.startsWith(digestPrefix)
    ? text
    : `${digestPrefix}${createHash('sha256').update(text, 'utf8').digest('hex')}`;

/**
 * Starts a change to an owner's strategies and bots: until the transaction ends, other changes to them wait, in any
 * process. Returns the ordinal for a new object, which is greater than all earlier ones.
 */
export async function nextOrdinal(tx: Transaction<Tables>, { owner, workspace }: OwnerColumns): Promise<number> {
  // The update locks the row. SQLite rejects a write after a read if another process has written in between.
  const { changes } = await tx
    .insertInto('owners')
    .values({ owner, workspace, changes: 1 })
    .onConflict((on) =>
      on.columns(['owner', 'workspace']).doUpdateSet(({ eb }) => ({ changes: eb('owners.changes', '+', 1) })),
    )
    .returning('changes')
    .executeTakeFirstOrThrow();
  return changes;
}

/** The authenticated caller. */
export type Principal = KeyHolder | User;

/** The holder of a market data key. */
export interface KeyHolder {
  readonly kind: 'key';
  readonly id: string;
  readonly name: string;
  /** Null: the default from the settings. */
  readonly requestsPerMinute: number | null;
  readonly scopes: readonly KeyScope[];
  /** Null: all datasets. */
  readonly datasets: readonly string[] | null;
  /** A reader of the catalogue without a key: anyone, or who signed in by a link. It is not in the database. */
  readonly visitor?: 'anonymous' | 'session';
}

/** Whether the requester only visits the catalogue page. Visitors read what is stored and cause no request to the upstream. */
export const isVisitor = (principal: Principal | null): boolean =>
  principal?.kind === 'key' && principal.visitor !== undefined;

/** The user of a user token. */
export interface User {
  readonly kind: 'user';
  readonly user: string;
  readonly workspace: string | null;
  readonly scopes: readonly string[];
}
