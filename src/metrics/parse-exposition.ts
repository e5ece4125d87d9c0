import { families, type Sample } from './metric-definitions.ts';

const sampleLine = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const label = /([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)",?/g;

/** The samples of a text that `textOf` wrote; what it would not write is passed over. */
export function readSamples(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels, value] = sampleLine.exec(line) ?? [];
    if (name === undefined || !Object.hasOwn(families, name) || !Number.isFinite(Number(value))) return [];
    const pairs = [...(labels ?? '').matchAll(label)].map(([, key, written]) => [key!, unescaped(written!)] as const);
    const known = families[name]!.labels;
    if (pairs.length !== known.length || pairs.some(([key]) => !known.includes(key))) return [];
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
  });
}

const unescaped = (text: string): string => text.replace(/\\(.)/g, (_, sign: string) => (sign === 'n' ? '\n' : sign));
