import fc from 'fast-check';
import { type Schema, type Schemas, valueFor } from './schema-values.ts';

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

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Schemas };
}

/** Existing values by parameter name. */
type Known = Readonly<Record<string, readonly string[]>>;

export interface Request {
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
  '',
  ' ',
  '0',
  '-1',
  '-0',
  '1.5',
  '1e9',
  '1e400',
  'NaN',
  'Infinity',
  '-Infinity',
  '0x10',
  '1_000',
  '01',
  '+1',
  '٣',
  '9007199254740993',
  '9'.repeat(78),
  `-${'9'.repeat(30)}`,
  '1'.repeat(400),
  'true',
  'null',
  'undefined',
  '[]',
  '{}',
  "' or 1=1 --",
  "'; drop table ticks; --",
  '" union select * from sqlite_master --',
  "x') union all select 1,2,3 --",
  '%',
  '_',
  '%%',
  "\\'",
  '$1',
  '?',
  ':a',
  "read_csv('/etc/passwd')",
  '../../etc/passwd',
  '..',
  '.',
  '..\\..',
  '/',
  '\0',
  'a\0b',
  '\r\nX-A: b',
  '\u202e',
  '\ufeff',
  '💥',
  'é',
  'é'.normalize('NFD'),
  '\ufffd',
  'ａ',
  '<script>',
  '$\u007b7*7}',
  '{{7*7}}',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '2025-06-14',
  '2025-02-30',
  '0000-00-00',
  'part-99.parquet',
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
export function requestsOf(document: Document, known: Known): fc.Arbitrary<Request> {
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
