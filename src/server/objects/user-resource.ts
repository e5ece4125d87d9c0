import { createHash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type TObject, type TSchema, Type } from 'typebox';
import { type Fault, parseBy, type Schema } from '../../contract/parsed-schema.ts';
import { CreatedHeaders, ObjectPath, pageMax } from '../../contract/strategies.ts';
import { requireUser } from '../auth/authenticate.ts';
import { decodeObjectCursor, encodeObjectCursor } from '../history/page-cursor.ts';
import { createIdempotencyConflictError, ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { toOwnerColumns } from '../workspace/owner.ts';
import type { OwnerColumns, PageRequest, RowPage } from '../workspace/tables.ts';

/** A kind of objects of users, such as bots. */
interface UserResource<Row, ListedRow> {
  readonly path: string;
  /** Singular and plural name in texts; the plural is also the name of the list in responses and cursors. */
  readonly noun: string;
  readonly plural: string;
  readonly querystring: TObject;
  readonly listResponse: TSchema;
  readonly itemResponse: TSchema;
  /** Summaries of the routes. */
  readonly summaries: { readonly list: string; readonly get: string; readonly remove: string };
  /** Further documentation of the route that removes an object. */
  readonly removal?: { readonly description: string; readonly problems: readonly number[] };
  list(owner: OwnerColumns, page: PageRequest, query: ListQuery): Promise<RowPage<ListedRow>>;
  get(owner: OwnerColumns, id: string): Promise<Row | null>;
  /** False if the object does not exist. */
  remove(owner: OwnerColumns, id: string): Promise<boolean>;
  toItem(row: Row): object;
  toListedItem(row: ListedRow): object;
}

/** The query of a list; `name` selects strategies. */
interface ListQuery {
  readonly limit?: number;
  readonly cursor?: string;
  readonly name?: string;
}

/** Adds the routes that list the objects of a user, and that return and remove one of them. */
export function registerUserResource<Row, ListedRow>(
  app: App,
  { clock }: ServiceContext,
  resource: UserResource<Row, ListedRow>,
): void {
  const { path, noun, plural, summaries, removal } = resource;
  const routes = app as unknown as FastifyInstance;
  const tags = ['users'];
  const [item, list] = [noun, plural].map((name) => name[0]!.toUpperCase() + name.slice(1));

  routes.get<{ Querystring: ListQuery }>(
    path,
    {
      config: { access: 'user' },
      schema: {
        operationId: `list${list}`,
        summary: summaries.list,
        tags,
        querystring: resource.querystring,
        response: { 200: resource.listResponse },
      },
    },
    async (request) => {
      const { limit = pageSizeDefault, cursor } = request.query;
      // A cursor of another list is rejected.
      const page = { limit: Math.min(limit, pageMax), before: decodeObjectCursor(plural, cursor) };
      const { rows, next } = await resource.list(getOwner(request), page, request.query);
      return {
        [plural]: rows.map(resource.toListedItem),
        count: rows.length,
        next_cursor: next === null ? null : encodeObjectCursor(plural, next),
        generated_at: clock.nowMs(),
      };
    },
  );

  routes.get<{ Params: Type.Static<typeof ObjectPath> }>(
    `${path}/:id`,
    {
      config: { access: 'user' },
      schema: {
        operationId: `get${item}`,
        summary: summaries.get,
        tags,
        params: ObjectPath,
        response: { 200: resource.itemResponse },
      },
    },
    async (request) => {
      const row = await resource.get(getOwner(request), request.params.id);
      if (row === null) throw createMissingObjectError(noun);
      return resource.toItem(row);
    },
  );

  routes.delete<{ Params: Type.Static<typeof ObjectPath> }>(
    `${path}/:id`,
    {
      config: { access: 'user', problems: removal?.problems ?? [] },
      schema: {
        operationId: `delete${item}`,
        summary: summaries.remove,
        ...(removal && { description: removal.description }),
        tags,
        params: ObjectPath,
        response: { 204: Type.Null({ description: `The ${noun} was removed.` }) },
      },
    },
    async (request, reply) => {
      if (!(await resource.remove(getOwner(request), request.params.id))) throw createMissingObjectError(noun);
      return reply.code(204).send(null);
    },
  );
}

const pageSizeDefault = 20;

/** The owner of the objects that a request can access. */
export const getOwner = (request: Pick<FastifyRequest, 'principal'>): OwnerColumns =>
  toOwnerColumns(requireUser(request));

export const createMissingObjectError = (noun: string): ProblemError =>
  new ProblemError(404, `This user has no such ${noun}.`);

/** SHA-256 of a JSON body in hex, independent of the order of object members. */
export const hashBody = (body: unknown): string =>
  createHash('sha256').update(JSON.stringify(body, sortMembers), 'utf8').digest('hex');

const sortMembers = (_name: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** 400 with the invalid fields. */
export const createInvalidBodyError = (errors: readonly Fault[], detail = 'The body is invalid.'): ProblemError =>
  new ProblemError(400, detail, {
    code: 'invalid_body',
    errors: errors.map(({ name, reason }) => ({ name: name === '' ? 'body' : name, reason })),
  });

/** @throws ProblemError 400 that names each invalid field */
export function parseBody<T>(schema: Schema<T>, body: unknown, detail?: string): T {
  const parsed = parseBy(schema, body);
  if ('faults' in parsed) throw createInvalidBodyError(parsed.faults, detail);
  return parsed.value;
}

/**
 * The row that a store added.
 * @throws ProblemError 409 if the user has `max` objects, 422 if the idempotency key was used with another body
 */
export function requireAdded<Row extends object>(added: Row | 'full' | 'other', plural: string, max: number): Row {
  if (added === 'full')
    throw new ProblemError(
      409,
      `This user has ${max} ${plural} in this workspace, which is the maximum. Remove some first.`,
      { code: 'object_limit' },
    );
  if (added === 'other') throw createIdempotencyConflictError();
  return added;
}

/** The documentation of a 201 response. */
export const describeCreatedResponse = <S extends TSchema>(schema: S) => ({
  description: 'The object was created, now or by an earlier request with this Idempotency-Key.',
  headers: CreatedHeaders,
  content: { 'application/json': { schema } },
});
