import { Type } from 'typebox';
import { JsonValidator } from '../../backtest/strategy/json-validator.ts';
import { parseStrategy } from '../../backtest/strategy/parse-strategy.ts';
import type { Strategy } from '../../backtest/strategy/strategy.ts';
import { paths } from '../../contract/paths.ts';
import * as contract from '../../contract/strategies.ts';
import { nameMax, namePattern } from '../../contract/strategies.ts';
import { requireUser } from '../auth/authenticate.ts';
import { toUntypedExchange } from '../exports/published-files.ts';
import type { ServiceLimits } from '../http/connection-limits.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import { toOwnerColumns } from '../workspace/owner.ts';
import { createStrategyStore } from '../workspace/strategies.ts';
import { createObjectId, type OwnerColumns, type PageRequest, type StrategyRow } from '../workspace/tables.ts';
import {
  createIdempotencyConflictError,
  createInvalidBodyError,
  createQuotaError,
  describeCreatedResponse,
  hashBody,
  readListPage,
} from './user-resource.ts';

const strategyNamePattern = new RegExp(namePattern, 'u');

/** The strategy in a request body, and its name. @throws ProblemError 400 that names each invalid field */
function parseStrategyBody(body: unknown): { readonly name: string; readonly strategy: Strategy } {
  const reader = new JsonValidator();
  const fields = reader.object(body, '', { required: ['name', 'definition'], optional: [] });
  const parsedName = fields.name === undefined ? '' : reader.text(fields.name, 'name', nameMax);
  if (parsedName !== '' && !strategyNamePattern.test(parsedName))
    reader.fault('name', 'must not start or end with a blank, or have control characters');
  const read = fields.definition === undefined ? { faults: [] } : parseStrategy(fields.definition, 'definition');
  const faults = [...reader.faults, ...('faults' in read ? read.faults : [])];
  if ('faults' in read || faults.length > 0) throw createInvalidBodyError(faults);
  return { name: parsedName, strategy: read.strategy };
}

/** `/api/v1/strategies`: users' strategies with their versions. */
export function registerStrategyRoutes(app: App, context: ServiceContext, { strategiesMax }: ServiceLimits): void {
  const { clock, workspace } = context;
  const strategies = createStrategyStore(workspace.db);
  const owner = (request: unknown, reply: unknown): OwnerColumns =>
    toOwnerColumns(requireUser(toUntypedExchange(request, reply)[0]));
  const createNotFoundError = (): ProblemError => new ProblemError(404, 'This user has no such strategy.');

  app.get(
    paths.strategies,
    {
      config: { access: 'user' },
      schema: {
        summary: "All versions of a user's strategies, newest first",
        tags: ['users'],
        querystring: contract.StrategiesQuery,
        response: { 200: contract.StrategiesResponse },
      },
    },
    async (request, reply) => {
      const { name = null, ...at } = request.query;
      const load = (page: PageRequest) => strategies.list(owner(request, reply), { ...page, name });
      const { objects, ...page } = await readListPage('strategies', at, load, toStrategy);
      return { strategies: objects, ...page, generated_at: clock.nowMs() };
    },
  );

  app.post(
    paths.strategies,
    {
      config: { access: 'user', problems: [409, 422], body: contract.StrategyRequest },
      schema: {
        summary: 'Creates a strategy, or a new version of one',
        description: `A user may have ${strategiesMax} strategy versions in a workspace.`,
        tags: ['users'],
        headers: contract.ObjectRequestHeaders,
        response: { 201: describeCreatedResponse(contract.Strategy) },
      },
    },
    async (request, reply) => {
      const { name, strategy } = parseStrategyBody(request.body);
      const fields = {
        id: createObjectId(context),
        created_at: clock.nowMs(),
        name,
        definition: JSON.stringify(strategy),
        idempotency_key: request.headers['idempotency-key'] ?? null,
        body_sha256: hashBody(request.body),
      };
      const row = await strategies.add(owner(request, reply), fields, strategiesMax);
      if (row === 'full') throw createQuotaError('strategies', strategiesMax);
      if (row === 'other') throw createIdempotencyConflictError();
      return reply.code(201).header('location', `${paths.strategies}/${row.id}`).send(toStrategy(row));
    },
  );

  app.get(
    `${paths.strategies}/:id`,
    {
      config: { access: 'user' },
      schema: {
        summary: 'A version of a strategy',
        tags: ['users'],
        params: contract.ObjectPath,
        response: { 200: contract.Strategy },
      },
    },
    async (request, reply) => {
      const row = await strategies.get(owner(request, reply), request.params.id);
      if (row === null) throw createNotFoundError();
      return toStrategy(row);
    },
  );

  app.delete(
    `${paths.strategies}/:id`,
    {
      config: { access: 'user', problems: [409] },
      schema: {
        summary: 'Removes a version of a strategy that no bot uses',
        description: 'The version number is not reused while other versions of the name exist.',
        tags: ['users'],
        params: contract.ObjectPath,
        response: { 204: Type.Null({ description: 'The version was removed.' }) },
      },
    },
    async (request, reply) => {
      const removed = await strategies.remove(owner(request, reply), request.params.id);
      if (removed === null) throw createNotFoundError();
      const { usedBy } = removed;
      if (usedBy > 0)
        throw new ProblemError(
          409,
          `${usedBy === 1 ? 'A bot uses' : `${usedBy} bots use`} this version. Remove the bots first.`,
        );
      return reply.code(204).send(null);
    },
  );
}

/** Converts a version to its representation in the API. */
const toStrategy = ({ id, name, version, definition, created_at }: StrategyRow): contract.Strategy => ({
  id,
  name,
  version,
  definition: JSON.parse(definition) as object,
  created_at,
});
