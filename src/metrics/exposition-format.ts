import { Gauge, Registry } from 'prom-client';
import { metricFamilies, type Sample } from './metric-definitions.ts';

/** Samples in the text format of Prometheus, in the order of their families; each ends its line. */
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

/** A text after which another may follow. */
export const ensureTrailingNewline = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);

/** Of the text format, version 0.0.4. */
export const expositionContentType = Registry.PROMETHEUS_CONTENT_TYPE;

const samplePattern = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const labelPattern = /([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)",?/g;

/** The samples of a text that `textOf` wrote; what it would not write is passed over. */
export function parseExposition(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels, value] = samplePattern.exec(line) ?? [];
    if (name === undefined || !Object.hasOwn(metricFamilies, name) || !Number.isFinite(Number(value))) return [];
    const pairs = [...(labels ?? '').matchAll(labelPattern)].map(
      ([, key, written]) => [key!, unescapeLabel(written!)] as const,
    );
    const known = metricFamilies[name]!.labels;
    if (pairs.length !== known.length || pairs.some(([key]) => !known.includes(key))) return [];
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
  });
}

const unescapeLabel = (text: string): string =>
  text.replace(/\\(.)/g, (_, sign: string) => (sign === 'n' ? '\n' : sign));
