// JSON Schemas that also parse. One definition of a request is its type, its checks, its errors and its part of the OpenAPI document.
// Nothing here imports TypeBox, which takes 0.15 s of CPU time to load: every thread of a backtest loads these schemas.

/** A fault of a field, such as `rules[0].entry.all[1].below`; '' for the whole input. */
export interface Fault {
  readonly name: string;
  readonly reason: string;
}

/** Maximum number of reported faults. */
const faultsMax = 50;

/** State of a parse of untrusted JSON. Parsers continue after a fault, so that all faults are reported. */
export class JsonReader {
  readonly faults: Fault[] = [];
  /** Number of faults, including those that are not reported. */
  found = 0;
  /** Numbers that quantities can refer to by name: the parameters of the strategy that is parsed. Not validated. */
  parameters: Readonly<Record<string, unknown>> = {};

  /** Reports only the first fault of a field, because the other faults are usually consequences of it. */
  fault(name: string, reason: string): void {
    this.found++;
    if (this.faults.length >= faultsMax || this.faults.some((fault) => fault.name === name)) return;
    this.faults.push({ name, reason });
  }
}

type Keywords = Readonly<Record<string, unknown>>;

export interface Schema<T> {
  /** The JSON Schema of what is accepted. */
  readonly json: Keywords;
  /** Parses a value. Its result is a T unless it reports a fault. */
  parse(json: unknown, at: string, reader: JsonReader): T;
}

export type Parsed<S> = S extends Schema<infer T> ? T : never;

/** A field that may be absent, and then has this value; without `absent`, it is then absent from the result. */
interface Optional<T> extends Schema<T> {
  readonly optional: true;
  readonly absent?: T;
}
interface Omittable<T> extends Optional<T> {
  readonly absent?: never;
}

type Fields = Readonly<Record<string, Schema<unknown>>>;
type OmittableNames<F extends Fields> = { [K in keyof F]: F[K] extends Omittable<unknown> ? K : never }[keyof F];
type ObjectOf<F extends Fields> = { readonly [K in Exclude<keyof F, OmittableNames<F>>]: Parsed<F[K]> } & {
  readonly [K in OmittableNames<F>]?: Parsed<F[K]>;
};

/** Parses JSON. Returns all faults of invalid JSON. */
export function parseBy<T>(schema: Schema<T>, json: unknown, at = ''): { value: T } | { faults: readonly Fault[] } {
  const reader = new JsonReader();
  const value = schema.parse(json, at, reader);
  return reader.found > 0 ? { faults: reader.faults } : { value };
}

export const joinPath = (at: string, name: string): string => (at === '' ? name : `${at}.${name}`);

export const isObject = (json: unknown): json is Keywords =>
  typeof json === 'object' && json !== null && !Array.isArray(json);

/** What a parser returns with a fault. */
const invalid = (reader: JsonReader, at: string, reason: string): never => reader.fault(at, reason) as never;

export const number = (keywords: Keywords = {}): Schema<number> => ({
  json: { type: 'number', ...keywords },
  parse(json, at, reader) {
    if (typeof json !== 'number' || !Number.isFinite(json)) return invalid(reader, at, 'must be a number');
    const { minimum = -Infinity, maximum = Infinity } = keywords as { minimum?: number; maximum?: number };
    if (json < minimum || json > maximum) return invalid(reader, at, `must be from ${minimum} to ${maximum}`);
    // -0 becomes 0, as in JSON output.
    return json === 0 ? 0 : json;
  },
});

export const integer = (keywords: Keywords): Schema<number> => ({
  ...refine(number(keywords), (value) => (Number.isInteger(value) ? null : 'must be a whole number')),
  json: { type: 'integer', ...keywords },
});

export const boolean = (keywords: Keywords = {}): Schema<boolean> => ({
  json: { type: 'boolean', ...keywords },
  parse: (json, at, reader) => (typeof json === 'boolean' ? json : invalid(reader, at, 'must be true or false')),
});

/** @param keywords `pattern` is documented, and checked by `refine` */
export const text = (maxLength: number, keywords: Keywords = {}): Schema<string> => ({
  json: { type: 'string', minLength: 1, maxLength, ...keywords },
  parse: (json, at, reader) =>
    typeof json === 'string' && json.isWellFormed() && json.length >= 1 && json.length <= maxLength
      ? json
      : invalid(reader, at, `must be a string of 1 to ${maxLength} characters`),
});

export const oneOf = <const T extends string>(values: readonly T[], description: string): Schema<T> => ({
  json: { type: 'string', enum: values, description },
  parse: (json, at, reader) =>
    values.find((value) => value === json) ?? invalid(reader, at, `must be one of ${values.join(', ')}`),
});

export const constant = <const T extends string>(value: T): Schema<T> => ({
  ...oneOf([value], ''),
  json: { type: 'string', const: value },
});

export const nullable = <T>(schema: Schema<T>, description: string): Schema<T | null> => ({
  json: { anyOf: [schema.json, { type: 'null' }], description },
  parse: (json, at, reader) => (json === null ? null : schema.parse(json, at, reader)),
});

export const list = <T>(
  items: Schema<T>,
  { minItems = 0, maxItems, ...keywords }: Keywords & { readonly minItems?: number; readonly maxItems: number },
): Schema<readonly T[]> => ({
  json: { type: 'array', items: items.json, ...(minItems > 0 && { minItems }), maxItems, ...keywords },
  parse(json, at, reader) {
    if (!Array.isArray(json)) return invalid(reader, at, 'must be a list');
    if (json.length < minItems || json.length > maxItems)
      reader.fault(at, `must have ${minItems} to ${maxItems} members`);
    return json.slice(0, maxItems).map((item, i) => items.parse(item, `${at}[${i}]`, reader));
  },
});

/** An object of values by name. Type.Record would give a pattern of names, which client generators do not read. */
export const record = <T>(
  values: Schema<T>,
  namesMax: number,
  keywords: Keywords,
  findNameFault: (name: string) => string | null = () => null,
): Schema<Readonly<Record<string, T>>> => ({
  json: { type: 'object', maxProperties: namesMax, additionalProperties: values.json, ...keywords },
  parse(json, at, reader) {
    if (!isObject(json)) return invalid(reader, at, 'must be an object');
    const entries = Object.entries(json);
    // The values are not parsed, because their faults could be as many.
    if (entries.length > namesMax) return invalid(reader, at, `has ${entries.length} names, more than ${namesMax}`);
    return Object.fromEntries(
      entries.map(([name, value]) => {
        const reason = findNameFault(name);
        if (reason !== null) reader.fault(joinPath(at, name), reason);
        return [name, values.parse(value, joinPath(at, name), reader)];
      }),
    );
  },
});

/** A field that may be absent. With a value, the result has this value then; otherwise the field is absent from the result. */
export function optional<T>(schema: Schema<T>): Omittable<T>;
export function optional<T, const D extends T>(schema: Schema<T>, absent: D): Optional<T>;
export function optional<T>(schema: Schema<T>, absent?: T): Optional<T> {
  return { ...schema, optional: true, ...(absent !== undefined && { absent }) };
}

/** Rejects fields that it does not name. The result has the order of `fields`. */
export function object<F extends Fields>(fields: F, keywords: Keywords = {}): Schema<ObjectOf<F>> {
  const all = Object.entries(fields as Readonly<Record<string, Schema<unknown> | Optional<unknown>>>);
  const isOptional = (field: Schema<unknown> | Optional<unknown>): field is Optional<unknown> => 'optional' in field;
  const required = all.filter(([, field]) => !isOptional(field)).map(([name]) => name);
  const expected = [...required, ...Object.keys(fields).filter((name) => !required.includes(name))].join(', ');
  return {
    json: {
      type: 'object',
      ...(required.length > 0 && { required }),
      properties: Object.fromEntries(all.map(([name, { json }]) => [name, json])),
      additionalProperties: false,
      ...keywords,
    },
    parse(json, at, reader) {
      if (!isObject(json)) return invalid(reader, at, 'must be an object');
      for (const name of Object.keys(json))
        if (!Object.hasOwn(fields, name)) reader.fault(joinPath(at, name), `is unknown: expected one of ${expected}`);
      const values = all.flatMap(([name, field]) => {
        const value = Object.hasOwn(json, name) ? json[name] : undefined;
        if (value !== undefined) return [[name, field.parse(value, joinPath(at, name), reader)]];
        if (!isOptional(field)) reader.fault(joinPath(at, name), 'is missing');
        else if (field.absent !== undefined) return [[name, field.absent]];
        return [];
      });
      return Object.fromEntries(values);
    },
  };
}

/** @param choose the alternative that JSON is meant to be; null after a fault */
export const anyOf = <const S extends readonly Schema<unknown>[]>(
  alternatives: S,
  description: string,
  choose: (json: unknown, at: string, reader: JsonReader) => S[number] | null,
): Schema<Parsed<S[number]>> => ({
  json: { anyOf: alternatives.map(({ json }) => json), description },
  parse: (json, at, reader) => choose(json, at, reader)?.parse(json, at, reader) as Parsed<S[number]>,
});

/** Further checks a value without faults. @param check returns the reason of a fault, or reports faults itself */
export const refine = <T>(
  schema: Schema<T>,
  check: (value: T, at: string, reader: JsonReader) => string | null,
): Schema<T> => ({
  json: schema.json,
  parse(json, at, reader) {
    const { found } = reader;
    const value = schema.parse(json, at, reader);
    const reason = reader.found === found ? check(value, at, reader) : null;
    if (reason !== null) reader.fault(at, reason);
    return value;
  },
});

/** Converts a list to one without duplicates. */
export const unique = <T>(schema: Schema<readonly T[]>): Schema<readonly T[]> => ({
  json: schema.json,
  parse: (json, at, reader) => [...new Set(schema.parse(json, at, reader) ?? [])],
});

/** A component of the OpenAPI document. Its schema is created when it is first used, because components refer to each other. */
export function component<T>(name: string, create: () => Schema<T>): Schema<T> {
  let schema: Schema<T> | undefined;
  return {
    json: { $ref: `#/components/schemas/${name}` },
    parse(json, at, reader) {
      schema ??= create();
      return schema.parse(json, at, reader);
    },
  };
}
