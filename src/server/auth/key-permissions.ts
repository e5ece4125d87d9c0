import type { FastifyRequest } from 'fastify';
import type { DatasetName } from '../../archive/format/datasets.ts';
import type { KeyScope } from '../../contract/key-scopes.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { KeyHolder } from '../workspace/owner.ts';

/** The data that a route returns to the holder of a key. */
export interface RouteData {
  /** The scope that the key must have; null for descriptions of the archive that every key may read. */
  readonly scope: KeyScope | null;
  /** The datasets that the key must permit; a function if they depend on the validated request. */
  readonly datasets: readonly DatasetName[] | ((request: FastifyRequest) => readonly DatasetName[]);
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Required on routes with the access `key`. */
    data?: RouteData;
  }
}

/** Throws 403 if the key does not have the scope of a route, or does not permit its datasets. @throws Error for a route without data */
export function requireKeyPermissions(key: KeyHolder, data: RouteData | undefined): void {
  // Fail closed: a route that does not state what it returns returns nothing.
  if (data === undefined) throw new Error('a route for keys does not state its data');
  const { scope, datasets } = data;
  if (scope !== null && !key.scopes.includes(scope))
    throw new ProblemError(403, `The key does not have the scope ${scope}. It has: ${key.scopes.join(', ')}.`, {
      headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
    });
  if (typeof datasets !== 'function') requireDatasets(key, datasets);
}

/** The hook that checks datasets which depend on the request. It runs after the validation. */
export function requireRequestedDatasets(request: FastifyRequest, _reply: unknown, done: () => void): void {
  const { datasets } = request.routeOptions.config.data ?? {};
  if (typeof datasets === 'function' && request.principal?.kind === 'key')
    requireDatasets(request.principal, datasets(request));
  done();
}

/** Whether the key permits a dataset. */
export const isPermittedDataset = ({ datasets }: KeyHolder, dataset: string): boolean =>
  datasets === null || datasets.includes(dataset);

function requireDatasets(key: KeyHolder, datasets: readonly DatasetName[]): void {
  const refused = datasets.find((dataset) => !isPermittedDataset(key, dataset));
  if (refused === undefined) return;
  throw new ProblemError(
    403,
    `The key does not permit the dataset ${refused}. It permits: ${key.datasets!.join(', ')}.`,
    {
      headers: { 'www-authenticate': 'Bearer error="insufficient_scope"' },
    },
  );
}
