import { readSymbol } from '../../archive/journal/symbol-store.ts';
import type { Fault } from '../../contract/parsed-schema.ts';
import { paths } from '../../contract/paths.ts';
import * as contract from '../../contract/strategies.ts';
import { type BotRequest, ObjectPath, ObjectRequestHeaders } from '../../contract/strategies.ts';
import type { ServiceLimits } from '../http/connection-limits.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { type BotWithStrategy, createBotStore } from '../workspace/bot-store.ts';
import { createStrategyStore, type StrategyStore } from '../workspace/strategy-store.ts';
import { createObjectId, type OwnerColumns } from '../workspace/tables.ts';
import {
  createInvalidBodyError,
  createMissingObjectError,
  describeCreatedResponse,
  getOwner,
  hashBody,
  registerUserResource,
  requireAdded,
} from './user-resource.ts';

/** Resolves the strategy and symbols of a bot request. @throws ProblemError 400 that names each invalid field */
async function resolveBot(
  { archive }: ServiceContext,
  strategies: StrategyStore,
  owner: OwnerColumns,
  { strategy: requestedStrategy, symbols, filter }: BotRequest,
) {
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
    /** Without duplicates; null for every symbol that matches the filter. */
    symbols: symbols === undefined ? null : [...new Set(symbols)],
    filter: { categories: [...new Set(categories)], sources: [...new Set(sources)] },
  };
}

/** `/api/v1/bots`: users' bots. */
export function registerBotRoutes(app: App, context: ServiceContext, { botsMax }: ServiceLimits): void {
  const { clock, workspace } = context;
  const bots = createBotStore(workspace.db);
  const strategies = createStrategyStore(workspace.db);
  registerUserResource(app, context, {
    path: paths.bots,
    noun: 'bot',
    plural: 'bots',
    querystring: contract.BotsQuery,
    listResponse: contract.BotsResponse,
    itemResponse: contract.Bot,
    summaries: { list: 'The bots of a user, newest first', get: 'A bot', remove: 'Removes a bot' },
    list: bots.list,
    get: bots.get,
    remove: bots.remove,
    toItem: toBot,
    toListedItem: toBot,
  });

  app.post(
    paths.bots,
    {
      config: { access: 'user', problems: [409, 422] },
      schema: {
        operationId: 'createBot',
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
      const owner = getOwner(request);
      const by = { idempotency_key: request.headers['idempotency-key'] ?? null, body_sha256: hashBody(body) };
      // Check the key first: a repeated request must succeed even if its strategy or symbols are gone.
      const added = (await bots.findByIdempotencyKey(owner, by)) ?? (await createBot(owner, body, by));
      if (added === 'unbound') throw new ProblemError(409, 'The strategy was removed in the meantime.');
      const row = requireAdded(added, 'bots', botsMax);
      return reply.code(201).header('location', `${paths.bots}/${row.id}`).send(toBot(row));
    },
  );

  async function createBot(
    owner: OwnerColumns,
    body: contract.BotRequest,
    by: Parameters<typeof bots.findByIdempotencyKey>[1],
  ) {
    const { strategy, symbols, filter } = await resolveBot(context, strategies, owner, body);
    return await bots.add(
      owner,
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

  app.patch(
    `${paths.bots}/:id`,
    {
      config: { access: 'user' },
      schema: {
        operationId: 'updateBot',
        summary: 'Pauses or resumes a bot',
        tags: ['users'],
        params: ObjectPath,
        body: contract.BotChange,
        response: { 200: contract.Bot },
      },
    },
    async (request) => {
      const { params, body } = request;
      const row = await bots.setStatus(getOwner(request), params.id, body.status, clock.nowMs());
      if (row === null) throw createMissingObjectError('bot');
      return toBot(row);
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
