import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { LeafSchema } from '../../src/settings/schema.ts';
import { describeExpected, settingByVariable, settingSchemas } from '../../src/settings/source.ts';
import { expectCurrent, project } from './kept-current.ts';
import { type Commented, commentsOf } from './yaml-comments.ts';

// docs/SETTINGS.md: ranges and defaults as the schema has them, meanings as they stand in config/default.yaml, which
// test/settings/schema.test.ts holds to the schema, key by key.

const { sections, settings } = commentsOf(readFileSync(`${project}config/default.yaml`, 'utf8'));

/** What a number counts, by the end of its name: units stand last. */
const units: readonly (readonly [RegExp, string])[] = [
  [/requests_per_second$/, 'requests a second'],
  [/requests_per_minute$/, 'requests a minute'],
  [/_seconds(_max|_min)?$/, 'seconds'],
  [/_minutes(_max|_min)?$/, 'minutes'],
  [/_hours(_max|_min)?$/, 'hours'],
  [/_days(_max|_min)?$/, 'days'],
  [/bytes_max$/, 'bytes'],
  [/share_max$/, 'share'],
  [/ticks\w*_max$/, 'ticks'],
];

const flagOf: Readonly<Record<string, string>> = { 'archive.output': '--output', 'log.level': '--log-level' };
const variableOf = new Map(Object.entries(settingByVariable).map(([name, path]) => [path, name]));

const cell = (text: string): string => text.replaceAll('|', '\\|');
const isNumber = ({ type, anyOf = [] }: LeafSchema): boolean =>
  type === 'number' || type === 'integer' || anyOf.some(isNumber);
const unitOf = (path: string, leaf: LeafSchema): string =>
  isNumber(leaf) ? (units.find(([end]) => end.test(path))?.[1] ?? '') : '';

function rowOf(path: string, leaf: LeafSchema): string {
  const unit = unitOf(path, leaf);
  const takes = `${describeExpected(leaf)}${unit === '' ? '' : `, ${unit}`}`;
  const ways = [variableOf.get(path), flagOf[path]].flatMap((way) => (way === undefined ? [] : [`\`${way}\``]));
  return `| \`${path}\` | ${cell(settings.get(path)!.says)} | ${cell(takes)} | \`${cell(JSON.stringify(leaf.default))}\` | ${ways.join(', ')} |`;
}

function page(): string {
  const bySection = Map.groupBy(settingSchemas, ([path]) => path.split('.').slice(0, -1).join('.'));
  const tables = [...bySection].map(([section, rows]) => {
    const says = sections.get(section);
    const head = section === '' ? '## At the top' : `## ${section}`;
    const table = rows.map(([path, leaf]) => rowOf(path, leaf)).join('\n');
    return `${head}\n${says === undefined || says === '' ? '' : `\n${says}\n`}\n| setting | meaning | what it may be | default | also by |\n| --- | --- | --- | --- | --- |\n${table}\n`;
  });
  return `# Every setting

Flags beat the environment, the environment beats the config file that \`--config\` or \`ODDSLAKE_CONFIG\` names, the file beats
the defaults. Any setting may be a flag: \`--set poll.page_limit=1000\`. An unknown key or a bad value is exit code 2, and
nothing is done. \`oddslake doctor\` lists what is not the default, and where it comes from.
[config/default.yaml](../config/default.yaml) is the same as a file to copy from.

Written by \`test/docs/settings.test.ts\` (\`UPDATE_DOCS=1 npx vitest run test/docs/settings.test.ts\`), from the schema.

${tables.join('\n')}`;
}

test('docs/SETTINGS.md is made of the settings as they are', () => {
  expectCurrent('docs/SETTINGS.md', page());
});

test('every setting has a meaning of its own in config/default.yaml', () => {
  const lacking = [...settingSchemas.keys()].filter((path) => !settings.get(path)?.says);
  expect(lacking).toEqual([]);
});

test('a number that a unit ends the name of has that unit', () => {
  for (const [path, leaf] of settingSchemas)
    if (/_(seconds|minutes|hours|days|bytes|ms)(_max|_min)?$/.test(path)) expect(unitOf(path, leaf), path).not.toBe('');
});

test('comments are read with what they say, and without what the schema says', () => {
  const yaml = '# The head.\n\n# A section.\nupstream:\n  # Where it\n  # is. ODDSLAKE_X. (a text)\n  base_url: null\n';
  const read = commentsOf(yaml);
  expect([...read.sections]).toEqual([['upstream', 'A section.']]);
  expect([...read.settings]).toEqual([['upstream.base_url', { says: 'Where it is.' } satisfies Commented]]);
});
