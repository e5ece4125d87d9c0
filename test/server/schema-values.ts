import fc from 'fast-check';

// Values generated from JSON Schema, for the keywords that the OpenAPI document uses.

export interface Schema {
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

export type Schemas = Readonly<Record<string, Schema>>;

/** A value that matches a schema. */
export function valueFor(schema: Schema, schemas: Schemas, depth = 0): fc.Arbitrary<unknown> {
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
