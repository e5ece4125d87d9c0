import { Gauge, Registry } from 'prom-client';
import { metricFamilies, type Sample } from './metric-definitions.ts';

/** Formats samples in the Prometheus text format, ordered by family. */
export async function formatExposition(samples: readonly Sample[]): Promise<string> {
  const registry = new Registry();
  const byName = Map.groupBy(samples, ({ name }) => name);
  for (const [name, { help, labels }] of Object.entries(metricFamilies)) {
    const own = byName.get(name);
    if (own === undefined) continue;
    const gauge = new Gauge({ registers: [registry], name, help, labelNames: labels });
    for (const { labels: values, value } of own) gauge.set(values, value);
  }
  return byName.size === 0 ? '' : ensureTrailingNewline(await registry.metrics());
}

export const ensureTrailingNewline = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);

/** Content type of the text format, version 0.0.4. */
export const expositionContentType = Registry.PROMETHEUS_CONTENT_TYPE;

const samplePattern = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const labelPattern = /([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)",?/g;

/** Parses text written by `formatExposition`. Ignores all other lines. */
export function parseExposition(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels, value] = samplePattern.exec(line) ?? [];
    if (name === undefined || !Object.hasOwn(metricFamilies, name) || !Number.isFinite(Number(value))) return [];
    const pairs = [...(labels ?? '').matchAll(labelPattern)].map(
      ([, key, escaped]) => [key!, unescapeLabel(escaped!)] as const,
    );
    const known = metricFamilies[name]!.labels;
    if (pairs.length !== known.length || pairs.some(([key]) => !known.includes(key))) return [];
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
  });
}

const unescapeLabel = (text: string): string =>
  text.replace(/\\(.)/g, (_, sign: string) => (sign === 'n' ? '\n' : sign));
