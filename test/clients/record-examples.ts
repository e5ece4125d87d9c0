import { createRequire } from 'node:module';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';

// Examples of the components of the OpenAPI document, taken from requests and responses.

const require = createRequire(import.meta.url);
const { Ajv2020 } = require('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };
const addFormats = require('ajv-formats') as (ajv: Ajv) => void;

type Node = Readonly<Record<string, unknown>>;

/** Items of an array and entries of an object of named values that an example keeps. */
const itemsMax = 1;

/** Collects one example for each component. */
export function createExampleRecorder(document: object) {
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
