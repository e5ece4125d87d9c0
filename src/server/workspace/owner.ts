import { createHash } from 'node:crypto';
import type { Transaction } from 'kysely';
import type { OwnerColumns, Tables } from './tables.ts';

/** Whose objects a token reaches: those made with a token of the same user in the same workspace. */
export const toOwnerColumns = ({ user, workspace }: User): OwnerColumns => ({
  owner: toColumn(user),
  workspace: toColumn(workspace ?? ''),
});

/** An index of PostgreSQL takes no more than 2,704 bytes a row: room for both of these, and for a name beside them. */
const ownerBytesMax = 400;
const digestPrefix = 'sha256:';

/** The text, or where it is long its digest, which no text can be taken for. */
const toColumn = (text: string): string =>
  Buffer.byteLength(text) <= ownerBytesMax && !text.startsWith(digestPrefix)
    ? text
    : `${digestPrefix}${createHash('sha256').update(text, 'utf8').digest('hex')}`;

/**
 * Begins a change of an owner's strategies and bots: until the transaction is over, others of the same owner wait, in
 * whatever process. Returns the ordinal of what is made, greater than all before it.
 */
export async function nextOrdinal(tx: Transaction<Tables>, { owner, workspace }: OwnerColumns): Promise<number> {
  // The row is locked by its change; and SQLite refuses a write that comes after a read where another process wrote.
  const { made } = await tx
    .insertInto('owners')
    .values({ owner, workspace, made: 1 })
    .onConflict((on) =>
      on.columns(['owner', 'workspace']).doUpdateSet(({ eb }) => ({ made: eb('owners.made', '+', 1) })),
    )
    .returning('made')
    .executeTakeFirstOrThrow();
  return made;
}

/** Who asks. */
export type Principal = KeyHolder | User;

/** The holder of a market data key. */
export interface KeyHolder {
  readonly kind: 'key';
  readonly id: string;
  readonly name: string;
  /** Null: the rate that the settings give everybody. */
  readonly requestsPerMinute: number | null;
}

/** The bearer of a user token. */
export interface User {
  readonly kind: 'user';
  readonly user: string;
  readonly workspace: string | null;
  readonly scopes: readonly string[];
}
