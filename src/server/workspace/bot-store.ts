import type { Transaction } from 'kysely';
import { nextOrdinal } from './owner.ts';
import { type BotRow, type OwnerColumns, type PageRequest, type RowPage, type Tables, toRowPage } from './tables.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

/** Identifies a repeated request. */
type IdempotentBot = Pick<BotRow, 'idempotency_key' | 'body_sha256'>;

export type NewBot = Omit<BotRow, 'ordinal' | 'owner' | 'workspace' | 'status' | 'updated_at'>;

/** A bot with the name and version of its strategy. */
export interface BotWithStrategy extends BotRow {
  readonly strategy_name: string;
  readonly strategy_version: number;
}

type SelectDatabase = Pick<WorkspaceDatabase, 'selectFrom'>;

/** Users' bots; only the owner can find a bot. */
export function createBotStore(db: WorkspaceDatabase) {
  const rows = ({ owner, workspace }: OwnerColumns, of: SelectDatabase) =>
    of.selectFrom('bots').where('bots.owner', '=', owner).where('bots.workspace', '=', workspace);
  // A strategy that a bot is bound to cannot be removed, so the join finds it.
  const own = (owner: OwnerColumns, of: SelectDatabase = db) =>
    rows(owner, of)
      .innerJoin('strategies', 'strategies.id', 'bots.strategy_id')
      .selectAll('bots')
      .select(['strategies.name as strategy_name', 'strategies.version as strategy_version']);
  const get = async (owner: OwnerColumns, id: string, of: SelectDatabase = db): Promise<BotWithStrategy | null> =>
    (await own(owner, of).where('bots.id', '=', id).executeTakeFirst()) ?? null;

  /** The bot with an idempotency key; `other` if its request was different, null if there is none. */
  async function findByIdempotencyKey(
    owner: OwnerColumns,
    { idempotency_key: key, body_sha256 }: IdempotentBot,
    of: SelectDatabase = db,
  ): Promise<BotWithStrategy | 'other' | null> {
    if (key === null) return null;
    const known = await own(owner, of).where('bots.idempotency_key', '=', key).executeTakeFirst();
    if (known === undefined) return null;
    return known.body_sha256 === body_sha256 ? known : 'other';
  }

  async function addIn(tx: Transaction<Tables>, owner: OwnerColumns, bot: NewBot, ownMax: number) {
    const ordinal = await nextOrdinal(tx, owner);
    const known = await findByIdempotencyKey(owner, bot, tx);
    if (known !== null) return known;
    const { count } = await rows(owner, tx)
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    if (count >= ownMax) return 'full';
    const strategy = await tx
      .selectFrom('strategies')
      .where('id', '=', bot.strategy_id)
      .where('owner', '=', owner.owner)
      .where('workspace', '=', owner.workspace)
      .select(['name', 'version'])
      .executeTakeFirst();
    if (strategy === undefined) return 'unbound';
    const row: BotRow = { ...owner, ...bot, ordinal, status: 'active', updated_at: bot.created_at };
    await tx.insertInto('bots').values(row).execute();
    return { ...row, strategy_name: strategy.name, strategy_version: strategy.version };
  }

  return {
    /**
     * Adds a bot in status active. If a bot has the same idempotency key, it is returned unchanged; returns `other` if
     * its request was different, `full` if the owner has `ownMax` bots, and `unbound` if the strategy does not exist.
     */
    add: (owner: OwnerColumns, bot: NewBot, ownMax: number) =>
      db.transaction().execute((tx) => addIn(tx, owner, bot, ownMax)),
    findByIdempotencyKey,
    get,
    /** Newest first. */
    async list(owner: OwnerColumns, { limit, before }: PageRequest): Promise<RowPage<BotWithStrategy>> {
      const page = own(owner)
        .$if(before !== null, (query) => query.where('bots.ordinal', '<', before!))
        .orderBy('bots.ordinal', 'desc')
        .limit(limit + 1);
      return toRowPage(await page.execute(), limit);
    },
    /** Null if the bot does not exist. */
    async setStatus(owner: OwnerColumns, id: string, status: BotRow['status'], nowMs: number) {
      await db
        .updateTable('bots')
        .where('id', '=', id)
        .where('owner', '=', owner.owner)
        .where('workspace', '=', owner.workspace)
        .where('status', '!=', status)
        .set({ status, updated_at: nowMs })
        .execute();
      return get(owner, id);
    },
    /** False if the bot does not exist. */
    async remove({ owner, workspace }: OwnerColumns, id: string): Promise<boolean> {
      const { numDeletedRows } = await db
        .deleteFrom('bots')
        .where('id', '=', id)
        .where('owner', '=', owner)
        .where('workspace', '=', workspace)
        .executeTakeFirstOrThrow();
      return numDeletedRows > 0n;
    },
  };
}
