import { Type } from 'typebox';
import { readSymbol } from '../../archive/journal/symbols.ts';
import type { Fault } from '../../backtest/strategy/json-validator.ts';
import { paths } from '../../contract/paths.ts';
import * as contract from '../../contract/strategies.ts';
import { type BotRequest, ObjectPath, ObjectRequestHeaders } from '../../contract/strategies.ts';
import { requireUser } from '../auth/authenticate.ts';
import { toUntypedExchange } from '../exports/published-files.ts';
import type { ServiceLimits } from '../http/connection-limits.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import { type BotWithStrategy, createBotStore } from '../workspace/bots.ts';
import { toOwnerColumns } from '../workspace/owner.ts';
import { createStrategyStore, type StrategyStore } from '../workspace/strategies.ts';
import type { OwnerColumns, PageRequest, StrategyRow } from '../workspace/tables.ts';
import {
  createIdempotencyConflictError,
  createInvalidBodyError,
  createObjectId,
  createQuotaError,
  describeCreatedResponse,
  hashBody,
  readListPage,
} from './user-resource.ts';

interface ResolvedBot {
  readonly strategy: StrategyRow;
  /** Each once; null: those of the filter. */
  readonly symbols: readonly string[] | null;
  readonly filter: { readonly categories: readonly string[]; readonly sources: readonly string[] };
}

/** What a bot that is asked for is bound to. Throws ProblemError 400 where that is not there, each by its field. */
export async function resolveBot(
  { archive }: ServiceContext,
  kept: StrategyStore,
  owner: OwnerColumns,
  { strategy: asked, symbols, filter }: BotRequest,
): Promise<ResolvedBot> {
  const { name, version = null }: { name: string; version?: number | null } = asked;
  const errors: Fault[] = [];
  const strategy = await kept.find(owner, name, version);
  if (strategy === null) {
    const known = version !== null && (await kept.find(owner, name, null)) !== null;
    const [field, what] = known ? ['version', 'version of it'] : ['name', 'strategy of this user'];
    errors.push({ name: `strategy.${field}`, reason: `is no ${what}` });
  }
  if (symbols === undefined && filter === undefined)
    errors.push({ name: 'symbols', reason: 'is missing, and so is a filter' });
  if (symbols !== undefined && filter !== undefined)
    errors.push({ name: 'filter', reason: 'does not go with symbols: only one of the two' });
  const unknown = [...new Set(symbols)].filter((symbol) => readSymbol(archive.state.db, symbol) === undefined);
  for (const symbol of unknown)
    errors.push({ name: `symbols[${symbols!.indexOf(symbol)}]`, reason: 'is no symbol that this archive knows' });
  if (strategy === null || errors.length > 0) throw createInvalidBodyError(errors);
  const { categories = [], sources = [] } = filter ?? {};
  return {
    strategy,
    symbols: symbols === undefined ? null : [...new Set(symbols)],
    filter: { categories: [...new Set(categories)], sources: [...new Set(sources)] },
  };
}

/** `/api/v1/bots`: users' bots. */
export function registerBotRoutes(app: App, context: ServiceContext, { botsMax }: ServiceLimits): void {
  const { clock, workspace } = context;
  const kept = createBotStore(workspace.db);
  const known = createStrategyStore(workspace.db);
  const owner = (request: unknown, reply: unknown): OwnerColumns =>
    toOwnerColumns(requireUser(toUntypedExchange(request, reply)[0]));
  const requireOwn = <Row>(row: Row | null): Row => {
    if (row === null) throw new ProblemError(404, 'There is no such bot of this user.');
    return row;
  };

  app.get(
    paths.bots,
    {
      config: { access: 'user' },
      schema: {
        summary: 'The bots of a user, newest first',
        tags: ['users'],
        querystring: contract.BotsQuery,
        response: { 200: contract.BotsResponse },
      },
    },
    async (request, reply) => {
      const load = (page: PageRequest) => kept.list(owner(request, reply), page);
      const { objects, ...page } = await readListPage('bots', request.query, load, toBot);
      return { bots: objects, ...page, generated_at: clock.nowMs() };
    },
  );

  app.post(
    paths.bots,
    {
      config: { access: 'user', problems: [409, 422] },
      schema: {
        summary: 'Creates a bot: a version of a strategy, bound to symbols or to a filter',
        description: `A user may have ${botsMax} bots in a workspace.`,
        tags: ['users'],
        headers: ObjectRequestHeaders,
        body: contract.BotRequest,
        response: { 201: describeCreatedResponse(contract.Bot) },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const own = owner(request, reply);
      const by = { idempotency_key: request.headers['idempotency-key'] ?? null, body_sha256: hashBody(body) };
      // What it was bound to may be unknown by now: that it was made is still to be told.
      const row = (await kept.findByIdempotencyKey(own, by)) ?? (await added(own, body, by));
      if (row === 'full') throw createQuotaError('bots', botsMax);
      if (row === 'other') throw createIdempotencyConflictError();
      if (row === 'unbound') throw new ProblemError(409, 'Its strategy was removed in the meantime.');
      return reply.code(201).header('location', `${paths.bots}/${row.id}`).send(toBot(row));
    },
  );

  async function added(
    own: OwnerColumns,
    body: contract.BotRequest,
    by: Parameters<typeof kept.findByIdempotencyKey>[1],
  ) {
    const { strategy, symbols, filter } = await resolveBot(context, known, own, body);
    return await kept.add(
      own,
      {
        id: createObjectId(context),
        created_at: clock.nowMs(),
        name: body.name,
        mode: body.mode ?? 'paper',
        strategy_id: strategy.id,
        symbols: symbols === null ? null : JSON.stringify(symbols),
        filter: JSON.stringify(filter),
        ...by,
      },
      botsMax,
    );
  }

  app.get(
    `${paths.bots}/:id`,
    {
      config: { access: 'user' },
      schema: { summary: 'A bot', tags: ['users'], params: ObjectPath, response: { 200: contract.Bot } },
    },
    async (request, reply) => toBot(requireOwn(await kept.get(owner(request, reply), request.params.id))),
  );

  app.patch(
    `${paths.bots}/:id`,
    {
      config: { access: 'user' },
      schema: {
        summary: 'Pauses a bot, or makes it active again',
        tags: ['users'],
        params: ObjectPath,
        body: contract.BotChange,
        response: { 200: contract.Bot },
      },
    },
    async (request, reply) => {
      const { params, body } = request;
      return toBot(requireOwn(await kept.setStatus(owner(request, reply), params.id, body.status, clock.nowMs())));
    },
  );

  app.delete(
    `${paths.bots}/:id`,
    {
      config: { access: 'user' },
      schema: {
        summary: 'Removes a bot',
        tags: ['users'],
        params: ObjectPath,
        response: { 204: Type.Null({ description: 'It is removed.' }) },
      },
    },
    async (request, reply) => {
      requireOwn((await kept.remove(owner(request, reply), request.params.id)) || null);
      return reply.code(204).send(null);
    },
  );
}

/** A bot as clients see it. */
function toBot(row: BotWithStrategy): contract.Bot {
  const { id, name, mode, status, created_at, updated_at } = row;
  const symbols = row.symbols === null ? null : (JSON.parse(row.symbols) as string[]);
  return {
    id,
    name,
    symbols,
    mode,
    status,
    created_at,
    updated_at,
    strategy: { id: row.strategy_id, name: row.strategy_name, version: row.strategy_version },
    filter: symbols === null ? (JSON.parse(row.filter) as contract.Bot['filter']) : null,
  };
}
