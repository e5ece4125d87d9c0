import { createRequire } from 'node:module';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import {
  findProblemTitle,
  type Problem,
  problemKinds,
  problemType,
  toProblemType,
} from '../../src/contract/problem.ts';

// Checks a response against the OpenAPI document: status, type, headers and body.

const require = createRequire(import.meta.url);
const { Ajv2020 } = require('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };
const addFormats = require('ajv-formats') as (ajv: Ajv) => void;

interface Answer {
  readonly method: string;
  /** The requested path, with the query. */
  readonly path: string;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  /** JSON only; undefined: not checked. */
  readonly body?: string | undefined;
}

interface Described {
  readonly $ref?: string;
  readonly required?: boolean;
  readonly headers?: Readonly<Record<string, Described>>;
  readonly content?: Readonly<Record<string, { readonly schema?: object }>>;
}

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { responses: Record<string, Described> }>>>>;
}

/** Headers of every response, documented or not. */
const usualHeaders = ['x-request-id', 'x-content-type-options', 'cache-control', 'content-security-policy'];

/** Paths of pages and their files, which are not documented. */
const undescribed = /^\/(docs|assets)(\/|$)/;

/** Whether a body is one JSON value, which can be validated. */
export const isJson = (headers: Answer['headers']): boolean =>
  /^application\/(problem\+)?json\b/.test(headers.get('content-type') ?? '');

let latest: { readonly text: string; readonly check: (answer: Answer) => void } | undefined;

/** Returns a check that throws for every response that does not match the document. */
export function createResponseCheck(given: object): (answer: Answer) => void {
  // Through JSON, as clients see it.
  const text = JSON.stringify(given);
  // The services of a test file mostly have the same document, whose schemas are slow to compile.
  if (latest?.text !== text) latest = { text, check: checkOf(JSON.parse(text) as OpenApi) };
  return latest.check;
}

function checkOf(document: OpenApi): (answer: Answer) => void {
  const ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: true });
  addFormats(ajv);
  ajv.addSchema(document, 'document');
  const routes = Object.keys(document.paths)
    .map((path) => ({ path, pattern: patternOf(path) }))
    .sort((a, b) => a.path.split('{').length - b.path.split('{').length);
  const validators = new Map<string, ReturnType<Ajv['compile']>>();

  function follow(pointer: readonly string[]): { pointer: readonly string[]; found: Described | undefined } {
    const found = pointer.reduce<unknown>((at, name) => (at as Record<string, unknown>)?.[name], document) as Described;
    return found?.$ref === undefined ? { pointer, found } : follow(found.$ref.split('/').slice(1));
  }

  function requireValid(pointer: readonly string[], body: string, reported: string): void {
    const name = pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
    const validate = validators.get(name) ?? ajv.compile({ $ref: `document#/${name}` });
    validators.set(name, validate);
    if (!validate(JSON.parse(body)))
      throw new Error(
        `${reported}: its body is invalid by the document: ${ajv.errorsText(validate.errors)}\n${body.slice(0, 500)}`,
      );
  }

  return ({ method, path, status, headers, body }) => {
    const reported = `${method} ${path.slice(0, 300)} → ${status}`;
    for (const name of usualHeaders)
      if (headers.get(name) === null) throw new Error(`${reported}: has no header ${name}`);
    const type = headers.get('content-type')?.split(';')[0] ?? null;
    const [plain = ''] = path.split('?', 1);
    const route = routes.find(({ pattern }) => pattern.test(readable(plain)));
    const verb = method === 'HEAD' ? 'get' : method.toLowerCase();
    const known = route !== undefined && document.paths[route.path]![verb] !== undefined;
    if (!known) {
      if (undescribed.test(plain) && status < 400) return;
      if (method === 'OPTIONS' && status === 204 && headers.get('allow') !== null) return;
      if (status < 400 || (status === 405) !== (headers.get('allow') !== null))
        throw new Error(`${reported}: no documented route`);
      requireProblem();
      return;
    }
    const { pointer, found } = follow(['paths', route.path, verb, 'responses', String(status)]);
    if (found === undefined) throw new Error(`${reported}: the status is not documented for ${route.path}`);
    for (const [name, value] of Object.entries(found.headers ?? {})) {
      const header = value.$ref === undefined ? value : follow(value.$ref.split('/').slice(1)).found;
      if (header?.required === true && headers.get(name) === null)
        throw new Error(`${reported}: lacks the documented header ${name}`);
    }
    if (status >= 400) requireProblem();
    const types = Object.keys(found.content ?? {});
    if (
      type === null ? types.length > 0 && status !== 304 && status !== 204 && method !== 'HEAD' : !types.includes(type)
    )
      throw new Error(`${reported}: the type ${type} is not documented; ${types.join(', ') || 'none'} is`);
    // A range of a JSON text is not JSON.
    if (status !== 206 && body !== undefined && body !== '' && found.content?.[type!]?.schema !== undefined)
      requireValid([...pointer, 'content', type!, 'schema'], body, reported);

    function requireProblem(): void {
      if (type !== problemType) throw new Error(`${reported}: an error of type ${type}`);
      if (body === undefined || body === '') return;
      requireValid(['components', 'schemas', 'Problem'], body, reported);
      const problem = JSON.parse(body) as Problem;
      if (problem.status !== status) throw new Error(`${reported}: the status in the body differs`);
      const kind = problemKinds[problem.code];
      if (kind.status !== status) throw new Error(`${reported}: the code ${problem.code} is of status ${kind.status}`);
      if (problem.type !== toProblemType(problem.code) || problem.title !== findProblemTitle(status))
        throw new Error(`${reported}: type and title differ from those of the code ${problem.code}`);
    }
  };
}

function patternOf(path: string): RegExp {
  const parts = path
    .split(/(\{[^}]+\})/)
    .map((part) => (part.startsWith('{') ? '[^/]+' : part.replace(/[.+?^${}()|[\]\\*]/g, '\\$&')));
  return new RegExp(`^${parts.join('')}$`, 's');
}

function readable(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}
