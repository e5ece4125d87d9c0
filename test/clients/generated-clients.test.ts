import { execFile, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { project } from '../docs/kept-current.ts';
import { collected, listed } from '../e2e/books.ts';
import { fixedNow, folder } from '../e2e/lake.ts';
import { run } from '../e2e/run-program.ts';
import { claims, crafted, hs256, secret } from '../server/forged-tokens.ts';
import { restlessAt, serving } from '../server/serving.ts';

// Examples of the components of the OpenAPI document, taken from requests and responses.

const require = createRequire(import.meta.url);
const { Ajv2020 } = require('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };
const addFormats = require('ajv-formats') as (ajv: Ajv) => void;

type Node = Readonly<Record<string, unknown>>;

/** Items of an array and entries of an object of named values that an example keeps. */
const itemsMax = 1;

/** Collects one example for each component. */
function createExampleRecorder(document: object) {
  const ajv = new Ajv2020({ strict: false });
  addFormats(ajv);
  ajv.addSchema(document, 'document');
  const examples: Record<string, unknown> = {};

  const follow = (pointer: readonly string[]): unknown =>
    pointer.reduce<unknown>((at, name) => (at as Node | undefined)?.[name], document);

  const isValid = (schema: Node, value: unknown): boolean =>
    typeof schema.$ref === 'string'
      ? ajv.compile({ $ref: `document${schema.$ref}` })(value) === true
      : schema.type === undefined || ajv.compile({ type: schema.type })(value) === true;

  function visit(schema: Node | undefined, value: unknown): void {
    if (schema === undefined || value === null || value === undefined) return;
    const { $ref, anyOf, properties, additionalProperties, items } = schema;
    if (typeof $ref === 'string') {
      const pointer = $ref.split('/').slice(1);
      const name = pointer.at(-1)!;
      examples[name] ??= shorten(follow(pointer) as Node, value);
      visit(follow(pointer) as Node, value);
    }
    const option = (anyOf as Node[] | undefined)?.find((each) => isValid(each, value));
    visit(option, value);
    if (Array.isArray(value)) for (const item of value) visit(items as Node, item);
    else if (typeof value === 'object')
      for (const [name, inner] of Object.entries(value))
        visit(((properties as Node | undefined)?.[name] ?? additionalProperties) as Node | undefined, inner);
  }

  /** Shortens arrays, but not in a strategy, whose meaning depends on them. */
  function shorten(schema: Node, value: unknown): unknown {
    if (Array.isArray(value)) return value.slice(0, itemsMax).map((item) => shorten({}, item));
    if (typeof value !== 'object' || value === null) return value;
    const isNamed = typeof schema.additionalProperties === 'object';
    const entries = Object.entries(value).slice(0, isNamed ? itemsMax : Infinity);
    return Object.fromEntries(entries.map(([name, inner]) => [name, shorten({}, inner)]));
  }

  return {
    add(method: string, path: string, status: number, sent: unknown, received: unknown): void {
      const operation = follow(['paths', path, method]) as Node;
      const schemaOf = (node: unknown): Node | undefined => {
        const { content = {} } = (node ?? {}) as { content?: Record<string, { schema: Node }> };
        return Object.entries(content).find(([type]) => type.includes('json'))?.[1].schema;
      };
      visit(schemaOf(operation.requestBody), sent);
      if (status < 300) visit(schemaOf((operation.responses as Node)[status]), received);
    },
    render: (): string =>
      `${JSON.stringify(Object.fromEntries(Object.entries(examples).sort(([a], [b]) => (a < b ? -1 : 1))), null, 2)}\n`,
  };
}

// Clients generated from the OpenAPI document of the running service call every operation of it.

const here = join(project, 'test/clients');

interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { schema: { $ref?: string } }>> }>
  >;
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

/** A service over an archive filled from the sandbox, and a folder with its document. */
async function startService() {
  const { archive, output } = await collected();
  const work = folder();
  await importRows(work, listed(output)[0]!, output);
  const { url, key } = await serving(archive, {
    clock: restlessAt(fixedNow),
    set: [`service.tokens.secret=${secret}`],
  });
  const token = crafted(hs256, { ...claims, iat: fixedNow / 1000, exp: fixedNow / 1000 + 600, scope: 'research' });
  const text = await (await fetch(`${url}/api/v1/openapi.json`)).text();
  writeFileSync(join(work, 'openapi.json'), text);
  const document = JSON.parse(text) as { paths: Paths };
  const { paths } = document;
  return { work, document, paths, env: { ODDSLAKE_URL: url, ODDSLAKE_KEY: key, ODDSLAKE_TOKEN: token } };
}

/**
 * Imports a quote with both sides and one without a bid, and two trades of one time: one with all facts, and one with the texts
 * of numbers that no double holds.
 */
async function importRows(folder: string, symbol: string, output: string): Promise<void> {
  for (const [dataset, header, ...rows] of [
    ['quotes', 'symbol,t,bid,ask,bid_size,ask_size', `${fixedNow - 1},0.25,0.5,100,100`, `${fixedNow},,0.5,,`],
    [
      'trades',
      'symbol,t,trade_id,price,size,aggressor,block,tx_hash',
      `${fixedNow},10,0.50000000000000000001,3.00000000000000000001,,,`,
      `${fixedNow},9,0.4,100,buy,false,0xab`,
    ],
  ] as const) {
    const file = join(folder, `${dataset}.csv`);
    writeFileSync(file, `${header}\n${rows.map((row) => `${symbol},${row}\n`).join('')}`);
    const flags = ['--dataset', dataset, '--output', output, '--set', 'source.name=box'];
    const { code, stderr } = await run(['import', file, ...flags]);
    expect(code, stderr).toBe(0);
  }
}

const listOperations = (paths: Paths): Operation[] => Object.values(paths).flatMap((methods) => Object.values(methods));

/** Runs a program to its end and returns its standard output; throws with all of its output if it fails. */
async function runCommand(program: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}) {
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 1 << 26 };
  const { stdout } = await promisify(execFile)(program, args, options).catch(
    (error: { stdout: string; stderr: string }) => {
      throw new Error(`${program} ${args.join(' ')}:\n${error.stdout}\n${error.stderr}`);
    },
  );
  return stdout;
}

/** `getTicks` as Python writes it, `get_ticks`. */
const toSnakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const parseLines = <T>(stdout: string): T[] =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T);

test('a TypeScript client of openapi-typescript and openapi-fetch calls every operation, and its types hold', async () => {
  const { work, document, paths, env } = await startService();
  cpSync(join(here, 'typescript'), work, { recursive: true });
  mkdirSync(join(work, 'node_modules'));
  for (const [name, from] of [
    ['openapi-fetch', here],
    ['openapi-typescript-helpers', here],
    ['@types', project],
    ['undici-types', project],
  ] as const)
    symlinkSync(join(from, 'node_modules', name), join(work, 'node_modules', name));
  writeFileSync(join(work, 'package.json'), '{"type":"module"}');
  const generator = join(here, 'node_modules/.bin/openapi-typescript');
  await runCommand(generator, ['openapi.json', '-o', 'api.d.ts', '--default-non-nullable', 'false'], work);
  await runCommand(join(project, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.json'], work);
  const called = parseLines<{ method: string; path: string; status: number; sent: unknown; received?: unknown }>(
    await runCommand(process.execPath, ['calls.ts'], work, env),
  );
  const good = called.filter(({ status }) => status < 300);
  const ids = new Set(good.map(({ method, path }) => paths[path]![method]!.operationId));
  expect([...ids].sort()).toEqual(
    listOperations(paths)
      .map(({ operationId }) => operationId)
      .sort(),
  );
  const bad = called.filter(({ status }) => status >= 400);
  expect(bad).toMatchObject([{ method: 'get', path: '/api/v1/ticks', status: 404 }]);
  if (process.env.UPDATE_DOCS === '1') {
    const recorder = createExampleRecorder(document);
    for (const { method, path, status, sent, received } of called) recorder.add(method, path, status, sent, received);
    writeFileSync(join(project, 'config/openapi-examples.json'), recorder.render());
    const biome = join(project, 'node_modules/.bin/biome');
    await runCommand(biome, ['format', '--write', 'config/openapi-examples.json'], project);
  }
});

test('a Python client of openapi-python-client calls every operation and parses every response', async () => {
  const { work, paths, env } = await startService();
  const settings = join(here, 'python-client.yaml');
  const path = { PATH: `${join(here, '.venv/bin')}:${process.env.PATH}` };
  const flags = ['--path', 'openapi.json', '--meta', 'none', '--output-path', 'oddslake_api', '--config', settings];
  const generate = ['generate', ...flags, '--fail-on-warning'];
  await runCommand(join(here, '.venv/bin/openapi-python-client'), generate, work, path);
  cpSync(join(here, 'calls.py'), join(work, 'calls.py'));
  const called = parseLines<{ operation: string; status: number; parsed: string }>(
    await runCommand(join(here, '.venv/bin/python'), ['calls.py'], work, env),
  );
  for (const { operationId, responses } of listOperations(paths)) {
    const good = called.filter(({ operation, status }) => operation === toSnakeCase(operationId) && status < 300);
    expect(good.length, operationId).toBeGreaterThan(0);
    for (const { status, parsed } of good) {
      const reference = responses[status]?.content?.['application/json']?.schema.$ref;
      if (reference !== undefined) expect(parsed, operationId).toBe(reference.split('/').at(-1));
    }
  }
  const bad = called.filter(({ status }) => status >= 400);
  expect(bad).toEqual([{ operation: 'get_ticks', status: 404, parsed: 'Problem' }]);
});

/** Whether Maven and a JDK of version 17 or newer are installed. */
function hasJava(): boolean {
  const { stdout, status } = spawnSync('mvn', ['--batch-mode', '--version'], { encoding: 'utf8' });
  return status === 0 && Number(/Java version: (\d+)/.exec(stdout)?.[1]) >= 17;
}

/** The operation of a request by its method and path without a query. */
function findOperation(paths: Paths, method: string, path: string): Operation {
  const names = Object.keys(paths);
  const name = names.includes(path)
    ? path
    : names.find((each) => new RegExp(`^${each.replace(/\{\w+\}/g, '[^/]+')}$`).test(path));
  const operation = paths[name ?? '']?.[method];
  if (operation === undefined) throw new Error(`the document has no ${method} ${path}`);
  return operation;
}

// In CI a missing Maven is a failure. Maven downloads the generator in the first run, into its own cache.
test.skipIf(process.env.CI === undefined && !hasJava())(
  'a Java client of openapi-generator calls every operation and parses every response',
  { timeout: 400_000 },
  async () => {
    if (!hasJava()) throw new Error('The Java client needs Maven (mvn) with a JDK of version 17 or newer.');
    const { work, paths, env } = await startService();
    cpSync(join(here, 'java'), work, { recursive: true });
    const calls = join(work, 'calls.jsonl');
    await runCommand('mvn', ['--batch-mode', '--quiet', 'process-classes'], work, { ...env, ODDSLAKE_CALLS: calls });
    const called = parseLines<{ method: string; path: string; status: number }>(readFileSync(calls, 'utf8'));
    const good = called.filter(({ status }) => status < 300);
    const ids = new Set(good.map(({ method, path }) => findOperation(paths, method, path).operationId));
    expect([...ids].sort()).toEqual(
      listOperations(paths)
        .map(({ operationId }) => operationId)
        .sort(),
    );
    const bad = called.filter(({ status }) => status >= 400);
    expect(bad).toEqual([{ method: 'get', path: '/api/v1/ticks', status: 404 }]);
  },
);
