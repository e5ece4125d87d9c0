import type { Transaction } from 'kysely';
import { nextOrdinal } from './owner.ts';
import { type OwnerColumns, type PageRequest, type StrategyRow, type Tables, toRowPage } from './tables.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

export type NewStrategy = Pick<
  StrategyRow,
  'id' | 'idempotency_key' | 'body_sha256' | 'created_at' | 'name' | 'definition'
>;

export type StrategyStore = ReturnType<typeof createStrategyStore>;

type SelectDatabase = Pick<WorkspaceDatabase, 'selectFrom'>;

/** Users' strategies. Every version is an immutable object; only its owner can find it. */
export function createStrategyStore(db: WorkspaceDatabase) {
  const own = ({ owner, workspace }: OwnerColumns, of: SelectDatabase = db) =>
    of.selectFrom('strategies').where('owner', '=', owner).where('workspace', '=', workspace);

  async function addIn(tx: Transaction<Tables>, owner: OwnerColumns, strategy: NewStrategy, ownMax: number) {
    const ordinal = await nextOrdinal(tx, owner);
    const { idempotency_key: key, body_sha256, name } = strategy;
    if (key !== null) {
      const existing = await own(owner, tx).where('idempotency_key', '=', key).selectAll().executeTakeFirst();
      if (existing !== undefined) return existing.body_sha256 === body_sha256 ? existing : 'other';
    }
    const { count } = await own(owner, tx)
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    if (count >= ownMax) return 'full';
    const { latest } = await own(owner, tx)
      .where('name', '=', name)
      .select(({ fn }) => fn.max<number | null>('versions_assigned').as('latest'))
      .executeTakeFirstOrThrow();
    const version = (latest ?? 0) + 1;
    const row: StrategyRow = { ...owner, ...strategy, ordinal, version, versions_assigned: version };
    await tx.insertInto('strategies').values(row).execute();
    return row;
  }

  async function removeIn(tx: Transaction<Tables>, owner: OwnerColumns, id: string) {
    await nextOrdinal(tx, owner);
    const row = await own(owner, tx).where('id', '=', id).selectAll().executeTakeFirst();
    if (row === undefined) return null;
    const { usedBy } = await tx
      .selectFrom('bots')
      .where('owner', '=', owner.owner)
      .where('workspace', '=', owner.workspace)
      .where('strategy_id', '=', id)
      .select(({ fn }) => fn.countAll<number>().as('usedBy'))
      .executeTakeFirstOrThrow();
    if (usedBy > 0) return { usedBy };
    await tx.deleteFrom('strategies').where('id', '=', id).execute();
    // The other versions of the name store the number, so that it is not reused.
    await tx
      .updateTable('strategies')
      .where('owner', '=', owner.owner)
      .where('workspace', '=', owner.workspace)
      .where('name', '=', row.name)
      .where('versions_assigned', '<', row.versions_assigned)
      .set({ versions_assigned: row.versions_assigned })
      .execute();
    return { usedBy };
  }

  return {
    /**
     * Adds a new version of a strategy. If a strategy has the same idempotency key, it is returned unchanged; returns
     * `other` if its request was different, and `full` if the owner has `ownMax` versions.
     */
    add: (owner: OwnerColumns, strategy: NewStrategy, ownMax: number) =>
      db.transaction().execute((tx) => addIn(tx, owner, strategy, ownMax)),
    get: async (owner: OwnerColumns, id: string) =>
      (await own(owner).where('id', '=', id).selectAll().executeTakeFirst()) ?? null,
    /** By name; the highest version if `version` is null. */
    async find(owner: OwnerColumns, name: string, version: number | null) {
      const page = own(owner)
        .where('name', '=', name)
        .$if(version !== null, (query) => query.where('version', '=', version!))
        .orderBy('version', 'desc')
        .limit(1);
      return (await page.selectAll().executeTakeFirst()) ?? null;
    },
    /** Newest first; all names if `name` is null. */
    async list(owner: OwnerColumns, { limit, before, name = null }: PageRequest & { readonly name?: string | null }) {
      const page = own(owner)
        .$if(before !== null, (query) => query.where('ordinal', '<', before!))
        .$if(name !== null, (query) => query.where('name', '=', name!))
        .orderBy('ordinal', 'desc')
        .limit(limit + 1);
      return toRowPage(await page.selectAll().execute(), limit);
    },
    /** Removes a version that no bot uses, and returns the number of bots that do; null if it does not exist. */
    remove: (owner: OwnerColumns, id: string) => db.transaction().execute((tx) => removeIn(tx, owner, id)),
  };
}
