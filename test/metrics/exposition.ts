/** Strict parser of the Prometheus text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats */

interface Read {
  readonly type: string;
  readonly help: string;
  /** Values by their labels, sorted, as `a="1",b="2"`. */
  readonly values: ReadonlyMap<string, number>;
}

const nameOf = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const sample = new RegExp(
  `^(${nameOf})(?:\\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\"n])*",?)*)\\})? (\\S+)$`,
);
const number = /^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?Inf|NaN)$/i;

/** Returns families by name. Throws for the first invalid line. */
export function readExposition(text: string): Map<string, Read> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const families = new Map<string, { type: string; help: string; values: Map<string, number> }>();
  let current = '';
  const described = new Map<string, string>();
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind === 'HELP') {
      if (described.has(name!)) throw new Error(`HELP twice: ${name}`);
      described.set(name!, rest!);
    } else if (kind === 'TYPE') {
      if (families.has(name!)) throw new Error(`TYPE twice, or its samples are torn apart: ${name}`);
      if (!/^(counter|gauge|histogram|summary|untyped)$/.test(rest!)) throw new Error(`no such type: ${line}`);
      families.set(name!, { type: rest!, help: described.get(name!) ?? '', values: new Map() });
      current = name!;
    } else addSample(line, current, families.get(current));
  }
  for (const [name, { type, help, values }] of families) {
    if (help === '') throw new Error(`no HELP: ${name}`);
    // Metrics of the Node runtime may have no samples.
    if (values.size === 0 && !name.startsWith('nodejs_')) throw new Error(`no sample: ${name}`);
    if (type === 'counter' && !name.endsWith('_total')) throw new Error(`a counter not named _total: ${name}`);
  }
  return families;
}

function addSample(
  line: string,
  current: string,
  family: { type: string; values: Map<string, number> } | undefined,
): void {
  const [, name, labels = '', value] = sample.exec(line) ?? [];
  if (name === undefined) throw new Error(`not a sample: ${line}`);
  const base = family?.type === 'histogram' ? name.replace(/_(bucket|sum|count)$/, '') : name;
  if (family === undefined || base !== current) throw new Error(`not below its TYPE: ${line}`);
  if (!number.test(value!)) throw new Error(`not a number: ${line}`);
  const pairs = [...labels.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)=("(?:[^"\\]|\\.)*")/g)];
  if (new Set(pairs.map(([, key]) => key)).size !== pairs.length) throw new Error(`a label twice: ${line}`);
  const key = `${name === current ? '' : name}${pairs
    .map(([pair]) => pair)
    .sort()
    .join(',')}`;
  if (family.values.has(key)) throw new Error(`a sample twice: ${line}`);
  family.values.set(key, Number(value!.replace(/^([+-]?)Inf$/i, '$1Infinity')));
}

/** Value of one sample; undefined if it is missing. */
export const sampleOf = (families: ReadonlyMap<string, Read>, name: string, labels = ''): number | undefined =>
  families.get(name)?.values.get(labels);
