import { type TObject, Type } from 'typebox';

/*
 * Parameters that several routes have, with their bounds. A query can state every integer that a double represents exactly;
 * larger values are rejected as well. A limit above the maximum of a route, and a time beyond the last possible tick, are
 * valid: they are reduced.
 */

const integerMax = Number.MAX_SAFE_INTEGER;

/** A maximum number of items. The description names the maximum of the route, to which larger values are reduced. */
export const Limit = (description: string, byDefault?: number) =>
  Type.Integer({
    minimum: 1,
    maximum: integerMax,
    ...(byDefault === undefined ? {} : { default: byDefault }),
    description,
  });

/** A time in epoch milliseconds. */
export const TimeParameter = (description: string) => Type.Integer({ minimum: 0, maximum: integerMax, description });

/** A generation of the archive. */
export const GenerationParameter = (description: string) =>
  Type.Integer({ minimum: 0, maximum: integerMax, description });

/** Whether CSV is for spreadsheets, in a query or a job. */
export const CsvSafe = Type.Boolean({
  description:
    'Whether text that begins with =, +, -, @, a tab or a line break gets a leading apostrophe, so that spreadsheets do not evaluate it as a formula. Numbers do not change. Only for the format csv: with another one, true gives 400.',
});

/** A copy of a query schema whose `limit` states the maximum that this service is configured with. */
export function stateLimitMax<Query extends TObject>(query: Query, limitMax: number): Query {
  const { limit } = query.properties;
  return replaceProperty(query, 'limit', {
    ...limit,
    description: `${(limit as { description?: string }).description} The maximum of this service is ${limitMax}.`,
  });
}

/** A copy of a query schema whose text parameter `name` has one of the values. */
export const stateValues = <Query extends TObject>(query: Query, name: string, values: readonly string[]): Query => {
  const { minLength: _, maxLength: __, ...rest } = query.properties[name] as { minLength?: number; maxLength?: number };
  return replaceProperty(query, name, { ...rest, enum: [...values] });
};

const replaceProperty = <Query extends TObject>(query: Query, name: string, schema: object): Query => ({
  ...query,
  properties: { ...query.properties, [name]: schema },
});
