/** Qualifies a name with its source. */
export type QualifyName = (name: string) => string;

/**
 * Qualifies the names in a market record: its canonical_id, and every string at the symbol paths. Whatever is parsed from
 * the record, or rebuilt from its stored fields, then has the qualified names. Two sources may use one canonical_id for
 * different markets, so it is qualified too. A record that is not an object stays as it is; it is rejected later.
 */
export const qualifyMarket = (record: unknown, qualify: QualifyName, symbolPaths: readonly string[]): unknown =>
  qualifyAtPaths(
    record,
    ['canonical_id', ...symbolPaths].map((path) => path.split('/')),
    qualify,
  );

/** Visits each member once, so that a name at several paths is qualified once. */
function qualifyAtPaths(value: unknown, paths: readonly (readonly string[])[], qualify: QualifyName): unknown {
  if (typeof value !== 'object' || value === null || paths.length === 0) return value;
  const members = Object.entries(value).map(([key, inner]: [string, unknown]): [string, unknown] => {
    const rests = paths.filter(([name]) => name === '*' || name === key).map(([, ...rest]) => rest);
    if (typeof inner !== 'string')
      return [
        key,
        qualifyAtPaths(
          inner,
          rests.filter((rest) => rest.length > 0),
          qualify,
        ),
      ];
    const isName = inner !== '' && rests.some((rest) => rest.length === 0);
    return [key, isName ? qualify(inner) : inner];
  });
  return Array.isArray(value) ? members.map(([, inner]) => inner) : Object.fromEntries(members);
}
