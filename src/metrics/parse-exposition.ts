import { metricFamilies, type Sample } from './metric-definitions.ts';

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
