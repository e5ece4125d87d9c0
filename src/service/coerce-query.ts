interface ParameterSchema {
  readonly type?: string;
}

/** Numbers as one writes them by hand: no exponent, no sign but minus, no blank, and exact as a double. */
const integerPattern = /^(0|-?[1-9]\d{0,15})$/;
const decimalPattern = /^-?(0|[1-9]\d{0,15})(\.\d{1,17})?$/;

/**
 * The parameters of a query with those that its schema calls numbers or booleans turned into such; a text that is none
 * stays as it is, and the validation then says so. One that is repeated is a list, which no parameter of ours may be.
 */
export function coerceQuery(
  query: Readonly<Record<string, unknown>>,
  properties: Readonly<Record<string, ParameterSchema>>,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [
      name,
      typeof value === 'string' && Object.hasOwn(properties, name) ? coerceValue(value, properties[name]!) : value,
    ]),
  );
}

function coerceValue(text: string, { type }: ParameterSchema): unknown {
  if (type === 'integer') return integerPattern.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text;
  if (type === 'number') return decimalPattern.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  return text;
}
