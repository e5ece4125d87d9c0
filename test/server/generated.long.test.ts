import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Writable } from 'node:stream';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../../src/cli/log.ts';
import { clockAt } from '../archive/scratch.ts';
import { collected } from '../e2e/books.ts';
import { fixedNow, manifestOf, ticksOf } from '../e2e/lake.ts';
import { createResponseCheck, isJson } from './documented.ts';
import { claims, crafted, hs256, secret } from './forged-tokens.ts';
import { serving } from './serving.ts';
import { freshDatabase, postgresUrl } from './workspace/databases.ts';

// Values generated from JSON Schema, for the keywords that the OpenAPI document uses.

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
}

type Schemas = Readonly<Record<string, Schema>>;

/** A value that matches a schema. */
function valueFor(schema: Schema, schemas: Schemas, depth = 0): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) return valueFor(schemas[schema.$ref.split('/').at(-1)!] ?? {}, schemas, depth + 1);
  if ('const' in schema) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const options = schema.anyOf ?? schema.oneOf;
  if (options !== undefined) return fc.oneof(...options.map((option) => valueFor(option, schemas, depth + 1)));
  if (depth > 6) return fc.constant(null);
  const types = [schema.type ?? []].flat();
  return fc.oneof(...(types.length === 0 ? ['any'] : types).map((type) => ofType(type, schema, schemas, depth)));
}

function ofType(type: string, schema: Schema, schemas: Schemas, depth: number): fc.Arbitrary<unknown> {
  const { minimum = 0, maximum = 4e12, minLength = 0, maxLength = 60, minItems = 0, maxItems = 4 } = schema;
  const within = (given: number): number => Math.min(maximum, Math.max(minimum, given));
  switch (type) {
    case 'integer':
      return fc.oneof(
        fc.integer({ min: within(0), max: within(1000) }),
        fc.integer({ min: minimum, max: Math.min(maximum, 2 ** 52) }),
      );
    case 'number':
      return fc.double({ min: minimum, max: maximum, noNaN: true });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(valueFor(schema.items ?? {}, schemas, depth + 1), {
        minLength: minItems,
        maxLength: Math.min(maxItems, minItems + 3),
      });
    case 'object': {
      const entries = Object.entries(schema.properties ?? {});
      const shape = Object.fromEntries(entries.map(([name, inner]) => [name, valueFor(inner, schemas, depth + 1)]));
      return fc.record(shape, { requiredKeys: [...(schema.required ?? [])] });
    }
    case 'string':
      return schema.pattern === undefined
        ? fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 40) })
        : fc.stringMatching(new RegExp(schema.pattern));
    default:
      return fc.jsonValue();
  }
}

// Requests generated from an OpenAPI document: valid, nearly valid and invalid ones.

interface Parameter {
  readonly name: string;
  readonly in: 'query' | 'path' | 'header';
  readonly required?: boolean;
  readonly schema: Schema;
}

interface Media {
  readonly schema?: Schema;
  readonly example?: unknown;
}

interface Operation {
  readonly security?: readonly object[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, { readonly content?: object }>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Schemas };
}

/** Existing values by parameter name. */
type Known = Readonly<Record<string, readonly string[]>>;

interface Request {
  /** Method and path of the operation in the document. */
  readonly named: string;
  /** Method of the request, which may differ. */
  readonly method: string;
  /** Path and query, percent-encoded in some way. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

const rubbish = [
  ...'0 -1 -0 1.5 1e9 1e400 NaN Infinity -Infinity 0x10 1_000 01 +1 ٣ 9007199254740993 2025-06-14 2025-02-30'.split(
    ' ',
  ),
  ...'0000-00-00 true null undefined [] {} % _ %% $1 ? :a .. . / 💥 é ａ __proto__ constructor toString'.split(' '),
  ...'hasOwnProperty part-99.parquet <script> {{7*7}} ../../etc/passwd'.split(' '),
  ...['', ' ', '9'.repeat(78), `-${'9'.repeat(30)}`, '1'.repeat(400), "' or 1=1 --", "'; drop table ticks; --"],
  ...['" union select * from sqlite_master --', "x') union all select 1,2,3 --", "\\'", "read_csv('/etc/passwd')"],
  ...['..\\..', '\0', 'a\0b', '\r\nX-A: b', '\u202e', '\ufeff', 'é'.normalize('NFD'), '\ufffd', '$\u007b7*7}'],
];

/** Texts with invalid encoding. */
const broken = ['%zz', '%', '%2', '%ff', '%ed%a0%80', '%c0%ae', '%00', '+', '%2e%2e%2f', '%252e', 'a%'];

const encoded = (text: string): string => encodeURIComponent(text.toWellFormed());

const rubbishText = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...rubbish).map(encoded) },
  { weight: 2, arbitrary: fc.string({ unit: 'grapheme', maxLength: 40 }).map(encoded) },
  { weight: 1, arbitrary: fc.constantFrom(...broken) },
  { weight: 1, arbitrary: fc.nat(3).map((n) => 'a'.repeat(10 ** n)) },
);

/** Requests for all operations of the document, valid and invalid. */
function requestsOf(document: Document, known: Known): fc.Arbitrary<Request> {
  const operations = Object.entries(document.paths).flatMap(([route, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ route, method: method.toUpperCase(), operation })),
  );
  const requests = operations.map(({ route, method, operation }) => {
    const { parameters = [], requestBody, responses } = operation;
    const types = Object.values(responses).flatMap(({ content }) => Object.keys(content ?? {}));
    return fc
      .record({
        values: textsOf(parameters, document, known),
        extra: mostly(
          fc.constant(''),
          fc.tuple(rubbishText, rubbishText).map(([a, b]) => `${a}=${b}`),
        ),
        method: mostly(
          fc.constant(method),
          fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'),
        ),
        headers: headersOf(types),
        body: requestBody === undefined ? fc.constant(null) : bodyOf(requestBody.content, document),
        stray: mostly(fc.constant(null), fc.constantFrom('{}', 'a', '[1]')),
        type: mostly(fc.constant('application/json'), fc.constantFrom('text/plain', 'application/xml', 'a', '', ';;')),
      })
      .map(({ values, extra, method: requested, headers, body, stray, type }) => {
        const fill = parameters.map((parameter, at) => ({ parameter, texts: values[at] ?? [] }));
        const path = fill
          .filter(({ parameter }) => parameter.in === 'path')
          .reduce((text, { parameter: { name }, texts }) => text.replace(`{${name}}`, () => texts[0] ?? 'x'), route);
        const query = fill
          .filter(({ parameter }) => parameter.in === 'query')
          .flatMap(({ parameter: { name }, texts }) => texts.map((text) => `${encoded(name)}=${text}`));
        const own = fill.flatMap(({ parameter, texts }) =>
          parameter.in === 'header' && texts.length > 0 ? [[parameter.name.toLowerCase(), texts[0]!]] : [],
        );
        const text = [...query, ...(extra === '' ? [] : [extra])].join('&');
        const sent = body ?? stray;
        return {
          named: `${method} ${route}`,
          method: requested,
          target: `${path}${text === '' ? '' : `?${text}`}`,
          body: sent,
          headers: { ...headers, ...Object.fromEntries(own), ...(sent === null ? {} : { 'content-type': type }) },
        };
      });
  });
  return fc.oneof(...requests);
}

const mostly = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight: 8, arbitrary: usual }, { weight: 1, arbitrary: odd });

/** Valid texts of a parameter; none if omitted. A parameter without a known value is omitted. */
function goodTexts({ name, required, schema }: Parameter, document: Document, known: Known): fc.Arbitrary<string[]> {
  const hints = known[name];
  const typical = valueFor(schema, document.components.schemas).map((value) => encoded(String(value)));
  const texts = hints === undefined ? typical : hints.length === 0 ? null : fc.constantFrom(...hints).map(encoded);
  if (texts === null) return fc.constant<string[]>([]);
  const given = texts.map((text) => [text]);
  return required === true ? given : fc.oneof(given, fc.constant<string[]>([]));
}

/** Invalid texts of a parameter: random, missing or repeated. */
function oddTexts({ in: place, schema }: Parameter, document: Document): fc.Arbitrary<string[]> {
  const one = rubbishText.map((text) => [text]);
  if (place === 'path') return one.map(([text]) => [text === '' ? '%20' : text!]);
  const typical = valueFor(schema, document.components.schemas).map((value) => encoded(String(value)));
  return fc.oneof(
    { weight: 6, arbitrary: one },
    { weight: 1, arbitrary: fc.constant<string[]>([]) },
    { weight: 1, arbitrary: fc.tuple(typical, rubbishText).map((texts): string[] => texts) },
  );
}

/** Texts of all parameters: all valid, all but one valid, or none valid. */
function textsOf(parameters: readonly Parameter[], document: Document, known: Known): fc.Arbitrary<string[][]> {
  const good = fc.tuple(...parameters.map((parameter) => goodTexts(parameter, document, known)));
  const odd = fc.tuple(...parameters.map((parameter) => oddTexts(parameter, document)));
  const nearly = fc
    .tuple(good, odd, fc.nat())
    .map(([texts, others, at]) => texts.map((text, i) => (i === at % texts.length ? others[i]! : text)));
  return fc.oneof({ weight: 5, arbitrary: good }, { weight: 4, arbitrary: nearly }, { weight: 1, arbitrary: odd });
}

function headersOf(types: readonly string[]): fc.Arbitrary<Record<string, string>> {
  const accept = fc.constantFrom(
    ...types,
    '*/*',
    'text/*',
    'image/png',
    '',
    ',',
    'a',
    '*/*;q=0',
    'text/csv;q=x',
    'a/b,'.repeat(500),
  );
  const tag = fc.constantFrom('*', '""', '"a"', 'W/"a"', 'a', `"${'0'.repeat(64)}"`, '"a", "b"');
  const range = fc.constantFrom(
    'bytes=0-0',
    'bytes=0-',
    'bytes=-1',
    'bytes=5-2',
    'bytes=-0',
    'bytes=',
    'items=0-1',
    'bytes=0-0,2-3',
    `bytes=0-${'9'.repeat(40)}`,
    'a',
  );
  const odd: fc.Arbitrary<Record<string, string>> = fc.oneof(
    accept.map((value) => ({ accept: value })),
    fc.constantFrom('if-match', 'if-none-match', 'if-range').chain((name) => tag.map((value) => ({ [name]: value }))),
    range.map((value) => ({ range: value })),
    fc.constantFrom('gzip', 'br', 'identity').map((value) => ({ 'content-encoding': value })),
    fc.constantFrom('Thu, 01 Jan 1970 00:00:00 GMT', 'x').map((value) => ({ 'if-modified-since': value })),
  );
  // Rare, as too many invalid credentials of an address are rejected.
  const credential: fc.Arbitrary<Record<string, string>> = fc
    .constantFrom('', 'Bearer', 'Bearer a', 'Basic YTpi', `Bearer ${'a'.repeat(5000)}`, 'Bearer a b')
    .map((value) => ({ authorization: value }));
  return fc.oneof(
    { weight: 70, arbitrary: fc.constant({}) },
    { weight: 30, arbitrary: odd },
    { weight: 1, arbitrary: credential },
  );
}

function bodyOf(content: Readonly<Record<string, Media>>, document: Document): fc.Arbitrary<string | null> {
  const [media] = Object.values(content);
  const made = valueFor(media?.schema ?? {}, document.components.schemas);
  const good = media?.example === undefined ? made : fc.oneof(made, fc.constant(media.example));
  const nearly = fc
    .tuple(good, fc.constantFrom(...rubbish), fc.jsonValue(), fc.nat(20))
    .map(([value, name, other, at]) => {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return other;
      const names = Object.keys(value);
      const changed = names.length === 0 || at % 3 === 0 ? name : names[at % names.length]!;
      return { ...value, [changed]: other };
    });
  return fc.oneof(
    { weight: 5, arbitrary: good.map((value) => JSON.stringify(value) ?? 'null') },
    { weight: 4, arbitrary: nearly.map((value) => JSON.stringify(value)) },
    { weight: 1, arbitrary: fc.json() },
    {
      weight: 1,
      arbitrary: fc.constantFrom('', '{', '{"a":1e400}', '{"__proto__":{}}', 'NaN', '"\\ud800"', `${'['.repeat(3000)}`),
    },
    { weight: 1, arbitrary: fc.constant(null) },
  );
}

const cases = Number(process.env.CASES ?? 1500);
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`generated requests: SEED=${seed} CASES=${cases}`);

/** Concurrent requests. */
const together = 8;
const meanTogether = (1 + together) / 2;

/** Placeholders for IDs of jobs and objects created during the test. */
const placeholders = Array.from({ length: 10 }, (_, n) => `someid${n}`);

/** Text that only internals of the service contain. */
const inside = [
  /\n\s+at /,
  /\.ts:\d/,
  // Only this text: others quote the request.
  /\bselect\b[^"]*\bfrom\b/i,
  /sqlite/i,
  /duckdb/i,
  /node:/,
  /FST_/,
  /kysely/i,
  /postgres/i,
  /\bajv\b/i,
];

/** A log at its most detailed level, without the redaction of secrets that hides a leak; checks each line. */
async function openCheckedLog(check: (line: string) => void) {
  let lines = 0;
  const stream = new Writable({
    write(chunk: Buffer, _, done) {
      for (const line of chunk.toString('utf8').split('\n').slice(0, -1)) {
        lines++;
        check(line);
      }
      done();
    },
  });
  return { log: createLog({ level: 'debug', stream }), countLines: () => lines };
}

test(`${cases} requests generated from the document get documented responses without internals or secrets`, async () => {
  const { archive, output } = await collected();
  const set = [
    `service.tokens.secret=${secret}`,
    'service.research.runs_concurrent_max=64',
    'service.requests_per_minute=1000000',
  ];
  const token = crafted(hs256, { ...claims, iat: fixedNow / 1000, exp: fixedNow / 1000 + 600, scope: 'research' });
  const password = postgresUrl === null ? [] : [new URL(postgresUrl).password];
  const secrets = [secret, token, token.slice(token.lastIndexOf('.') + 1), ...password];
  const leaks: string[] = [];
  const checkSecrets = (text: string, what: string): void => {
    const at = secrets.findIndex((one) => text.includes(one));
    if (at >= 0) leaks.push(`${what} has secret ${at}: ${text.slice(0, 500)}`);
  };
  // Of a leak of listeners, for example: a warning of Node is not a log line.
  const onWarning = ({ name, message }: Error): void => {
    if (name !== 'ExperimentalWarning') leaks.push(`${name}: ${message}`);
  };
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  const { log, countLines } = await openCheckedLog((line) => {
    checkSecrets(line, 'a log line');
    // A line that a request has split or forged is not one object.
    if (!/^\{.*\}$/.test(line)) leaks.push(`not a log line: ${line.slice(0, 500)}`);
  });
  const database = await freshDatabase(postgresUrl === null ? 'sqlite' : 'postgres');
  const { url, key, app } = await serving(archive, {
    clock: clockAt(fixedNow),
    set,
    limits: { backtestsWaitingMax: 1000 },
    log,
    database,
  });
  secrets.push(key, key.slice('olk_0123456789ab_'.length));
  const document = JSON.parse(JSON.stringify(app.swagger())) as Document;
  const { files } = manifestOf(output).datasets.ticks;
  const symbols = [...ticksOf(output).keys()];
  const times = [0, 1, fixedNow - 86_400_000, fixedNow - 1, fixedNow, fixedNow + 1, 4e12].map(String);
  const known = {
    symbol: symbols,
    date: [...new Set(files.map(({ date }) => date!))],
    part: ['part-00.parquet', 'part-01.parquet', 'part-03.parquet'],
    from: times,
    to: times,
    limit: ['1', '2', '10', '1000000000'],
    since: ['0', '1', '2'],
    // Not predictable.
    cursor: [],
    id: placeholders,
  };
  // URLs of objects created during the test, by collection.
  const places = new Map<string, string[]>();
  let count = 0;
  const placed = (requested: Request): Request => ({
    ...requested,
    target: requested.target.replace(/^(.*)\/someid(\d)(?=[/?]|$)/, (text, of: string, n) => {
      const there = places.get(of) ?? [];
      return there.at((count * 7 + Number(n)) % there.length) ?? text;
    }),
  });
  const credentialOf = ({ named }: Request): string => {
    const [method = '', path = ''] = named.split(' ');
    const requested = JSON.stringify(document.paths[path]![method.toLowerCase()]!.security);
    return requested.includes('token') && !(requested.includes('key') && count % 2 === 0) ? token : key;
  };
  const check = createResponseCheck(document);
  const agent = new Agent({ keepAlive: true, maxSockets: together });
  const spent = new Map<string, { count: number; ms: number; statuses: Map<number, number> }>();
  const tried = async (made: Request): Promise<void> => {
    const started = performance.now();
    const requested = placed(made);
    count++;
    const { status, headers, body } = await answerTo(requested, url, credentialOf(requested), agent);
    const place = headers.get('location');
    if (place !== null) {
      const of = place.slice(0, place.lastIndexOf('/'));
      places.set(of, [...(places.get(of) ?? []), place]);
    }
    note(spent, requested, status, performance.now() - started);
    if (status >= 500) throw new Error(`answered with ${status}: ${body.slice(0, 500)}`);
    const reported = isJson(headers) ? body : undefined;
    check({ method: requested.method, path: requested.target, status, headers, body: reported });
    checkSecrets(`${JSON.stringify([...headers])} ${body}`, `the response to ${requested.method} ${requested.target}`);
    if (leaks.length > 0) throw new Error(leaks.join('\n'));
    if (body.includes(output)) throw new Error(`names the archive's folder: ${body.slice(0, 500)}`);
    // A response may quote the request.
    const printed =
      decodeURIComponent(requested.target.replace(/%(?![0-9a-f]{2})|%[89a-f][0-9a-f]/gi, '')) + requested.body;
    const leak = status < 400 ? undefined : inside.find((mark) => mark.test(body) && !mark.test(printed));
    if (leak !== undefined) throw new Error(`tells of the inside, ${leak}: ${body.slice(0, 500)}`);
  };
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(requestsOf(document, known), { minLength: 1, maxLength: together }), (several) =>
        Promise.all(several.map(tried)).then(() => {}),
      ),
      { numRuns: Math.ceil(cases / meanTogether), seed },
    );
  } finally {
    agent.destroy();
    console.log(`${count} requests, ${countLines()} log lines, ${leaks.length} leaks`);
    console.log(summaryOf(spent));
  }
  expect(leaks).toEqual([]);
  expect(countLines()).toBeGreaterThan(count / 2);
  // Ensure that the test is effective: every route without an ID succeeded at least once.
  const never = [...spent].filter(([, { statuses }]) => ![...statuses.keys()].some((status) => status < 400));
  console.log(`never answered well: ${never.map(([name]) => name).join(', ') || 'none'}`);
  const own = never.filter(([name]) => {
    const [method = '', path = ''] = name.split(' ');
    const requested = JSON.stringify(document.paths[path]![method.toLowerCase()]!.security);
    return method === 'GET' && !path.includes('{') && !requested.includes('token');
  });
  if (cases >= 1000) expect(own).toEqual([]);
  expect(spent.size).toBe(Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length);
});

function answerTo({ target, method, headers, body }: Request, url: string, key: string, agent: Agent) {
  return new Promise<{ status: number; headers: Headers; body: string }>((resolve, reject) => {
    const sent = {
      authorization: `Bearer ${key}`,
      ...headers,
      ...(body === null ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
    };
    const { hostname, port } = new URL(url);
    // Send the path unchanged: a URL object would normalize it.
    const asking = httpRequest({ hostname, port, path: target, method, headers: sent, agent, setDefaultHeaders: true });
    asking.on('response', (answer: IncomingMessage) => {
      const pieces: Buffer[] = [];
      // A stream of events has no end.
      const isEndless = String(answer.headers['content-type']).startsWith('text/event-stream');
      answer.on('data', (piece: Buffer) => {
        pieces.push(piece);
        if (isEndless) answer.destroy();
      });
      answer.on('error', reject);
      answer.on(isEndless ? 'close' : 'end', () => {
        const fields = new Headers(Object.entries(answer.headers).map(([name, value]) => [name, String(value)]));
        resolve({ status: answer.statusCode!, headers: fields, body: Buffer.concat(pieces).toString('utf8') });
      });
    });
    asking.on('error', reject);
    asking.end(body ?? undefined);
  });
}

type Spent = Map<string, { count: number; ms: number; statuses: Map<number, number> }>;

function note(spent: Spent, { named, method }: Request, status: number, ms: number): void {
  const entry = spent.get(named) ?? { count: 0, ms: 0, statuses: new Map() };
  spent.set(named, entry);
  entry.count++;
  entry.ms += ms;
  if (method !== 'OPTIONS') entry.statuses.set(status, (entry.statuses.get(status) ?? 0) + 1);
}

const summaryOf = (spent: Spent): string =>
  [...spent]
    .sort(([, a], [, b]) => b.ms - a.ms)
    .slice(0, 8)
    .map(([name, { count, ms, statuses }]) => {
      const reported = [...statuses].sort(([a], [b]) => a - b).map(([status, n]) => `${status}×${n}`);
      return `${name}: ${count} in ${Math.round(ms)} ms, ${reported.join(' ')}`;
    })
    .join('\n');
