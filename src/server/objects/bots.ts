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
import { createObjectId, type OwnerColumns, type PageRequest, type StrategyRow } from '../workspace/tables.ts';
import {
  createIdempotencyConflictError,
  createInvalidBodyError,
  createQuotaError,
  describeCreatedResponse,
  hashBody,
  readListPage,
} from './user-resource.ts';

interface ResolvedBot {
  readonly strategy: StrategyRow;
  /** Without repetitions; null: the symbols of the filter. */
  readonly symbols: readonly string[] | null;
  readonly filter: { readonly categories: readonly string[]; readonly sources: readonly string[] };
}

/** Resolves the strategy and symbols of a bot request. @throws ProblemError 400 that names each invalid field */
async function resolveBot(
  { archive }: ServiceContext,
  strategies: StrategyStore,
  owner: OwnerColumns,
  { strategy: requestedStrategy, symbols, filter }: BotRequest,
): Promise<ResolvedBot> {
  const { name, version = null }: { name: string; version?: number | null } = requestedStrategy;
  const errors: Fault[] = [];
  const strategy = await strategies.find(owner, name, version);
  if (strategy === null) {
    const isKnown = version !== null && (await strategies.find(owner, name, null)) !== null;
    const [field, what] = isKnown ? ['version', 'version of this strategy'] : ['name', 'strategy of this user'];
    errors.push({ name: `strategy.${field}`, reason: `is not a ${what}` });
  }
  if (symbols === undefined && filter === undefined)
    errors.push({ name: 'symbols', reason: 'is required if there is no filter' });
  if (symbols !== undefined && filter !== undefined)
    errors.push({ name: 'filter', reason: 'must be absent if symbols are given' });
  const unknown = [...new Set(symbols)].filter((symbol) => readSymbol(archive.state.db, symbol) === undefined);
  for (const symbol of unknown)
    errors.push({ name: `symbols[${symbols!.indexOf(symbol)}]`, reason: 'is not a symbol of this archive' });
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
  const bots = createBotStore(workspace.db);
  const strategies = createStrategyStore(workspace.db);
  const owner = (request: unknown, reply: unknown): OwnerColumns =>
    toOwnerColumns(requireUser(toUntypedExchange(request, reply)[0]));
  const requireOwn = <Row>(row: Row | null): Row => {
    if (row === null) throw new ProblemError(404, 'This user has no such bot.');
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
      const load = (page: PageRequest) => bots.list(owner(request, reply), page);
      const { objects, ...page } = await readListPage('bots', request.query, load, toBot);
      return { bots: objects, ...page, generated_at: clock.nowMs() };
    },
  );

  app.post(
    paths.bots,
    {
      config: { access: 'user', problems: [409, 422] },
      schema: {
        summary: 'Creates a bot that binds a version of a strategy to symbols or a filter',
        description: `A user may have ${botsMax} bots in a workspace.`,
        tags: ['users'],
        headers: ObjectRequestHeaders,
        body: contract.BotRequest,
        response: { 201: describeCreatedResponse(contract.Bot) },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const ownerColumns = owner(request, reply);
      const by = { idempotency_key: request.headers['idempotency-key'] ?? null, body_sha256: hashBody(body) };
      // Check the key first: a repeated request must succeed even if its strategy or symbols are gone.
      const row = (await bots.findByIdempotencyKey(ownerColumns, by)) ?? (await createBot(ownerColumns, body, by));
      if (row === 'full') throw createQuotaError('bots', botsMax);
      if (row === 'other') throw createIdempotencyConflictError();
      if (row === 'unbound') throw new ProblemError(409, 'The strategy was removed in the meantime.');
      return reply.code(201).header('location', `${paths.bots}/${row.id}`).send(toBot(row));
    },
  );

  async function createBot(
    ownerColumns: OwnerColumns,
    body: contract.BotRequest,
    by: Parameters<typeof bots.findByIdempotencyKey>[1],
  ) {
    const { strategy, symbols, filter } = await resolveBot(context, strategies, ownerColumns, body);
    return await bots.add(
      ownerColumns,
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
    async (request, reply) => toBot(requireOwn(await bots.get(owner(request, reply), request.params.id))),
  );

  app.patch(
    `${paths.bots}/:id`,
    {
      config: { access: 'user' },
      schema: {
        summary: 'Pauses or resumes a bot',
        tags: ['users'],
        params: ObjectPath,
        body: contract.BotChange,
        response: { 200: contract.Bot },
      },
    },
    async (request, reply) => {
      const { params, body } = request;
      return toBot(requireOwn(await bots.setStatus(owner(request, reply), params.id, body.status, clock.nowMs())));
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
        response: { 204: Type.Null({ description: 'The bot was removed.' }) },
      },
    },
    async (request, reply) => {
      requireOwn((await bots.remove(owner(request, reply), request.params.id)) || null);
      return reply.code(204).send(null);
    },
  );
}

/** Converts a bot to its representation in the API. */
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
