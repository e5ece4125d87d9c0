import type { LeafSchema } from './schema.ts';

/** Whether a value is what its schema asks for: the JSON Schema keywords of LeafSchema, nothing more. */
export function isValid(schema: LeafSchema, value: unknown): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some((option) => isValid(option, value));
  switch (schema.type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value) && value.length <= schema.maxItems! && value.every((v) => isValid(schema.items!, v));
    case 'boolean':
      return typeof value === 'boolean';
    case 'string':
      return typeof value === 'string' && isText(schema, value);
    default:
      return typeof value === 'number' && Number.isFinite(value) && isNumber(schema, value);
  }
}

function isText(
  { minLength = 0, maxLength = Number.POSITIVE_INFINITY, enum: names }: LeafSchema,
  value: string,
): boolean {
  return value.length >= minLength && value.length <= maxLength && (names === undefined || names.includes(value));
}

function isNumber({ type, minimum, exclusiveMinimum, maximum }: LeafSchema, value: number): boolean {
  if (type === 'integer' && !Number.isSafeInteger(value)) return false;
  if (minimum !== undefined && value < minimum) return false;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return false;
  return maximum === undefined || value <= maximum;
}

/** What a schema asks for, in words: `a whole number from 1 to 1024`. */
export function describeExpected(schema: LeafSchema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(describeExpected).join(' or ');
  switch (schema.type) {
    case 'null':
      return 'null';
    case 'array':
      return schema.items?.enum === undefined
        ? 'a list of texts, none of them empty'
        : `a list of ${schema.items.enum.join(', ')}`;
    case 'boolean':
      return 'true or false';
    case 'string':
      if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`;
      return schema.description ?? 'a text that is not empty';
    default:
      return `a ${schema.type === 'integer' ? 'whole number' : 'number'} ${describeBounds(schema)}`;
  }
}

function describeBounds({ minimum, exclusiveMinimum, maximum }: LeafSchema): string {
  return exclusiveMinimum === undefined
    ? `from ${minimum} to ${maximum}`
    : `above ${exclusiveMinimum}, at most ${maximum}`;
}

/**
 * The value that a text from the environment or a flag stands for; the text itself where it stands for none, so that
 * the check can name it. A list is separated by commas or written as JSON; `null` and the empty text are null.
 */
export function parseSettingText(schema: LeafSchema, text: string): unknown {
  if (schema.anyOf !== undefined) {
    if (text === 'null' || text === '') return null;
    return parseSettingText(schema.anyOf[0]!, text);
  }
  if (schema.type === 'array') return parseList(text);
  if (schema.type === 'string') return text;
  if (schema.type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  // Number('') and Number(' ') are 0.
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : text;
}

function parseList(text: string): unknown {
  const trimmed = text.trim();
  if (trimmed === '') return [];
  if (!trimmed.startsWith('[')) return trimmed.split(',').map((item) => item.trim());
  try {
    return JSON.parse(trimmed);
  } catch {
    return text;
  }
}
