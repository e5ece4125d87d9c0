// The parts of PromQL that the tests of dashboards and alerts compare with the metrics. promtool checks the syntax.

/** A metric that an expression selects. */
interface Selector {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
}

const selectorPattern = /\b((?:oddslake|process|nodejs|node)_\w+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?/g;
const matcherPattern = /(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"/g;

const listSelectors = (expression: string): Selector[] =>
  [...expression.matchAll(selectorPattern)].map(([, metric, matchers = '']) => ({
    metric: metric!,
    matchers: [...matchers.matchAll(matcherPattern)].map(([, label, operator, value]) => ({
      label: label!,
      operator: operator!,
      value: value!,
    })),
  }));

/** The labels of `by`, `on` and similar clauses. */
const listGroupingLabels = (expression: string): string[] =>
  [...expression.matchAll(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g)].flatMap(([, list]) =>
    list!.split(',').flatMap((name) => name.trim() || []),
  );

/** Values that were seen, by label, by metric. */
export type SeenMetrics = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

/** Reads texts in the Prometheus format. Each one is scraped from a target of its own. */
export function collectMetrics(texts: readonly string[]): SeenMetrics {
  const seen = new Map<string, Map<string, Set<string>>>();
  for (const line of texts.join('\n').split('\n')) {
    const [, metric, labels = ''] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (metric === undefined) continue;
    const values = seen.get(metric) ?? new Map<string, Set<string>>();
    seen.set(metric, values);
    for (const [, label, , value] of labels.matchAll(matcherPattern)) {
      const known = values.get(label!) ?? new Set();
      values.set(label!, known.add(value!));
    }
  }
  return seen;
}

/** Labels that Prometheus adds. */
const targetLabels = new Set(['instance', 'job']);

/**
 * What an expression names and the metrics do not have: metrics, labels, and values of a matcher for which there would never be a
 * series.
 */
export function findUnknownParts(expression: string, seen: SeenMetrics): string[] {
  const selectors = listSelectors(expression);
  if (selectors.length === 0) return [`no metric in ${expression}`];
  const unknown = selectors.flatMap(({ metric, matchers }) => {
    const labels = seen.get(metric);
    if (labels === undefined) return [metric];
    return matchers.flatMap(({ label, operator, value }) => {
      if (targetLabels.has(label) || value.startsWith('$')) return [];
      const values = labels.get(label);
      if (values === undefined) return [`${metric}{${label}}`];
      const wanted = operator.endsWith('~') ? splitAlternatives(value) : [value];
      return wanted
        .filter((one) => ![...values].some((known) => matches(known, one, operator)))
        .map((one) => `${metric}{${label}="${one}"}`);
    });
  });
  const labels = new Set(selectors.flatMap(({ metric }) => [...(seen.get(metric)?.keys() ?? [])]));
  const groupings = listGroupingLabels(expression).filter((label) => !targetLabels.has(label) && !labels.has(label));
  return [...unknown, ...groupings.map((label) => `by (${label})`)];
}

const matches = (known: string, wanted: string, operator: string): boolean =>
  operator.endsWith('~') ? new RegExp(`^(?:${wanted})$`).test(known) : known === wanted;

/** The alternatives of a regular expression such as `a|b`; one with parentheses is one alternative. */
const splitAlternatives = (pattern: string): string[] => (/[()]/.test(pattern) ? [pattern] : pattern.split('|'));
