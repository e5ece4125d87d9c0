import recordedExamples from '../../config/openapi-examples.json' with { type: 'json' };
import { isObject } from '../contract/parsed-schema.ts';
import { strategySchemas } from '../contract/strategy-language.ts';

export type JsonObject = Record<string, unknown>;

/** Keywords whose values are data and contain no schemas. */
const dataKeywords = new Set(['const', 'default', 'enum', 'example', 'examples']);

/** Whether a schema is of integers that may exceed 32 bits: generators of typed languages assume 32 bits without a format. */
const isLongInteger = ({ type, format, maximum = Infinity }: JsonObject): boolean =>
  type === 'integer' && format === undefined && (maximum as number) >= 2 ** 31;

/**
 * Moves every schema with a title to `components.schemas` under this title, and puts a reference in its place. The titles
 * are set in src/contract, so that one definition serves validation, the document, and the generated clients. Examples are
 * those of the schema, or a recorded response of a service (config/openapi-examples.json, which a test writes).
 * @param roots parts of the document in which schemas occur; they are changed
 * @throws Error if two different schemas have the same title
 */
export function nameSchemas(roots: readonly JsonObject[], components: JsonObject): void {
  const texts = new Map<string, string>();

  /** Adds a schema as a component. */
  function add(name: string, schema: JsonObject): void {
    const text = JSON.stringify(schema);
    if (texts.has(name)) {
      if (texts.get(name) !== text) throw new Error(`two different schemas have the title ${name}`);
      return;
    }
    texts.set(name, text);
    const { title: _, examples, ...rest } = schema;
    const recorded = (recordedExamples as Readonly<Record<string, unknown>>)[name];
    components[name] = {
      ...replaceInner(rest, 'schema'),
      ...(examples !== undefined ? { examples } : recorded !== undefined ? { examples: [recorded] } : {}),
    };
  }

  /** @param within `names` if the keys of the value are names, of properties or components, and not keywords */
  function replace(value: unknown, within: 'schema' | 'names'): unknown {
    if (Array.isArray(value)) return value.map((item) => replace(item, 'schema'));
    if (!isObject(value)) return value;
    if (within === 'schema' && typeof value.title === 'string') {
      add(value.title, value);
      return { $ref: `#/components/schemas/${value.title}` };
    }
    return replaceInner(value, within);
  }

  function replaceInner(value: JsonObject, within: 'schema' | 'names'): JsonObject {
    const inner = replaceValues(value, within);
    return within === 'schema' && isLongInteger(value) ? { ...inner, format: 'int64' } : inner;
  }

  function replaceValues(value: JsonObject, within: 'schema' | 'names'): JsonObject {
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => {
        if (within === 'schema' && dataKeywords.has(key)) return [key, inner];
        return [key, replace(inner, within === 'schema' && key === 'properties' ? 'names' : 'schema')];
      }),
    );
  }

  // The conditions of strategies are recursive, so these schemas refer to each other by name.
  for (const [name, schema] of Object.entries(strategySchemas)) add(name, schema as unknown as JsonObject);
  for (const root of roots) Object.assign(root, replaceInner(root, 'names'));
}

const etag = '"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"';

/** Examples of parameters by name, or by place and name. */
const parameterExamples: Readonly<Record<string, unknown>> = {
  canonical_id: 'polymarket-23656',
  event: 'KXBTC-26NOV20',
  category: 'crypto',
  csv_safe: true,
  cursor: 'WyJ0IiwiS1hCVEMiLDE3NDk4NTkyMDAwMDAsIjEiXQ',
  dataset: 'ticks',
  date: '2025-06-14',
  format: 'json',
  from: Date.UTC(2025, 5, 14),
  id: '01jxnq3v5zr8c2m4',
  duration_seconds: 60,
  'idempotency-key': 'ticks-2025-06-14',
  'if-match': etag,
  'if-modified-since': 'Sat, 14 Jun 2025 00:00:00 GMT',
  'if-none-match': etag,
  'if-range': etag,
  'if-unmodified-since': 'Sat, 14 Jun 2025 00:00:00 GMT',
  interval: '1h',
  'last-event-id': '5f0c9ab21d44-1042-0',
  limit: 100,
  'path name': 'main.js',
  'query name': 'buy the dip',
  offset: 25,
  part: 'part-00.parquet',
  q: 'bitcoin price',
  range: 'bytes=0-99',
  resolved: true,
  since: 12,
  sort: 'ending',
  source: 'kalshi',
  stamp: '6e340b9cffb37a98',
  state: 'active',
  symbol: 'KXBTC',
  to: Date.UTC(2025, 5, 15),
  view: 'matched',
};

/** An operation of an OpenAPI document. */
export interface Parameterized {
  readonly parameters?: readonly { in: string; name: string; schema?: JsonObject; example?: unknown }[];
}

/**
 * Adds an example to every parameter that has one, and describes those that may be repeated as arrays, which is how OpenAPI
 * repeats them. Validation sees a text or a list, and generators of typed languages accept one of the two types at most.
 */
export function describeParameters(paths: Readonly<Record<string, Readonly<Record<string, Parameterized>>>>): void {
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  for (const parameter of operations.flatMap(({ parameters = [] }) => parameters)) {
    const { schema } = parameter;
    const isList = Array.isArray(schema?.type) && schema.type.includes('array');
    if (isList) {
      // The bounds of the text are also those of the items.
      schema.type = 'array';
      delete schema.minLength;
      delete schema.maxLength;
    }
    const example = parameterExamples[`${parameter.in} ${parameter.name}`] ?? parameterExamples[parameter.name];
    if (example !== undefined) parameter.example ??= isList ? [example] : example;
  }
}
