import { paths } from '../../contract/paths.ts';
import * as contract from '../../contract/strategies.ts';
import type { ServiceLimits } from '../http/connection-limits.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { createStrategyStore } from '../workspace/strategy-store.ts';
import { createObjectId, type StrategyRow } from '../workspace/tables.ts';
import {
  describeCreatedResponse,
  getOwner,
  hashBody,
  parseBody,
  registerUserResource,
  requireAdded,
} from './user-resource.ts';

/** `/api/v1/strategies`: users' strategies with their versions. */
export function registerStrategyRoutes(app: App, context: ServiceContext, { strategiesMax }: ServiceLimits): void {
  const { clock, workspace } = context;
  const strategies = createStrategyStore(workspace.db);
  registerUserResource(app, context, {
    path: paths.strategies,
    noun: 'strategy',
    plural: 'strategies',
    querystring: contract.StrategiesQuery,
    listResponse: contract.StrategiesResponse,
    itemResponse: contract.Strategy,
    summaries: {
      list: "All versions of a user's strategies, newest first",
      get: 'A version of a strategy',
      remove: 'Removes a version of a strategy that no bot uses',
    },
    removal: {
      description: 'The version number is not reused while other versions of the name exist.',
      problems: [409],
    },
    list: (owner, page, { name = null }) => strategies.list(owner, { ...page, name }),
    get: strategies.get,
    async remove(owner, id) {
      const removed = await strategies.remove(owner, id);
      if (removed === null) return false;
      const { usedBy } = removed;
      if (usedBy === 0) return true;
      const bots = usedBy === 1 ? 'A bot uses' : `${usedBy} bots use`;
      throw new ProblemError(409, `${bots} this version. Remove the bots first.`);
    },
    toItem: toStrategy,
    toListedItem: toStrategy,
  });

  app.post(
    paths.strategies,
    {
      config: { access: 'user', problems: [409, 422], body: contract.strategyRequest.json },
      schema: {
        operationId: 'createStrategy',
        summary: 'Creates a strategy, or a new version of one',
        description: `A user may have ${strategiesMax} strategy versions in a workspace.`,
        tags: ['users'],
        headers: contract.ObjectRequestHeaders,
        response: { 201: describeCreatedResponse(contract.Strategy) },
      },
    },
    async (request, reply) => {
      const { name, definition } = parseBody(contract.strategyRequest, request.body);
      const fields = {
        id: createObjectId(context),
        created_at: clock.nowMs(),
        name,
        definition: JSON.stringify(definition),
        idempotency_key: request.headers['idempotency-key'] ?? null,
        body_sha256: hashBody(request.body),
      };
      const added = await strategies.add(getOwner(request), fields, strategiesMax);
      const row = requireAdded(added, 'strategies', strategiesMax);
      return reply.code(201).header('location', `${paths.strategies}/${row.id}`).send(toStrategy(row));
    },
  );
}

/** Converts a version to its representation in the API. */
const toStrategy = ({ id, name, version, definition, created_at }: StrategyRow): contract.Strategy => ({
  id,
  name,
  version,
  definition: JSON.parse(definition) as contract.Strategy['definition'],
  created_at,
});
