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
