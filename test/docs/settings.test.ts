import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { describeExpected, settingSchemas } from '../../src/settings/layers.ts';
import type { LeafSchema } from '../../src/settings/setting-table.ts';
import { expectUpToDate, project } from './kept-current.ts';
import { type CommentedKey, parseComments } from './yaml-comments.ts';

// docs/SETTINGS.md: ranges and defaults from the schema, meanings from config/default.yaml, which
// test/settings/setting-table.test.ts compares with the schema key by key.

const { sections, settings } = parseComments(readFileSync(`${project}config/default.yaml`, 'utf8'));

/** The unit of a number, by the end of its name. */
const units: readonly (readonly [RegExp, string])[] = [
  [/requests_per_second$/, 'requests per second'],
  [/requests_per_minute$/, 'requests per minute'],
  [/_ms$/, 'milliseconds'],
  [/_seconds(_max|_min)?$/, 'seconds'],
  [/_minutes(_max|_min)?$/, 'minutes'],
  [/_hours(_max|_min)?$/, 'hours'],
  [/_days(_max|_min)?$/, 'days'],
  [/bytes_max$/, 'bytes'],
  [/share_max$/, 'share'],
  [/ticks\w*_max$/, 'ticks'],
];

const flagOf: Readonly<Record<string, string>> = { 'archive.output': '--output', 'log.level': '--log-level' };

const cell = (text: string): string => text.replaceAll('|', '\\|');
const isNumber = ({ type, anyOf = [] }: LeafSchema): boolean =>
  type === 'number' || type === 'integer' || anyOf.some(isNumber);
const findUnit = (path: string, leaf: LeafSchema): string =>
  isNumber(leaf) ? (units.find(([end]) => end.test(path))?.[1] ?? '') : '';

function formatRow(path: string, leaf: LeafSchema): string {
  const unit = findUnit(path, leaf);
  const values = `${describeExpected(leaf)}${unit === '' ? '' : `, ${unit}`}`;
  const alsoBy = [leaf.variable, flagOf[path]].flatMap((way) => (way === undefined ? [] : [`\`${way}\``]));
  return `| \`${path}\` | ${cell(settings.get(path)!.says)} | ${cell(values)} | \`${cell(JSON.stringify(leaf.default))}\` | ${alsoBy.join(', ')} |`;
}

const formatTable = (rows: readonly [string, LeafSchema][]): string =>
  `| setting | meaning | values | default | also set by |
| --- | --- | --- | --- | --- |
${rows.map(([path, leaf]) => formatRow(path, leaf)).join('\n')}`;

function page(): string {
  const [common, advanced] = [true, false].map((wanted) =>
    [...settingSchemas].filter(([, { isCommon = false }]) => isCommon === wanted),
  );
  const bySection = Map.groupBy(advanced!, ([path]) => path.split('.').slice(0, -1).join('.'));
  const tables = [...bySection].map(([section, rows]) => {
    const comment = sections.get(section);
    return `### ${section}\n${comment === undefined || comment === '' ? '' : `\n${comment}\n`}\n${formatTable(rows)}\n`;
  });
  return `# Settings

Flags override environment variables, which override the config file, which overrides the defaults. The config file is that of
\`--config\`, otherwise that of \`ODDSLAKE_CONFIG\`, otherwise \`oddslake.yaml\` in the working folder if there is one. A command that
reads \`oddslake.yaml\` although nobody named it logs one line about it; with \`--quiet\` or \`--json\` it does not. Relative paths start
at the folder of the config file, without one at the working folder. \`oddslake demo\` reads a config file only if \`--config\` names it.

Any setting can be set by a flag, for example \`--set poll.page_limit=1000\`. If
a key is unknown or a value is invalid, the command does nothing and exits with 2. \`oddslake config show\` lists every setting that
differs from its default, with its source (\`--all\`: every setting), and \`oddslake config check\` lists everything that is wrong
with them at once, without the network. [config/default.yaml](../config/default.yaml) lists the same settings as a config file.

[config/schema.json](../config/schema.json) is the JSON Schema of a config file. Editors with a YAML language server complete and check
the settings with it. The first line of a config names it, and \`oddslake init\` writes that line:
\`# yaml-language-server: $schema=PATH\`. \`npm root -g\` prints the folder in which the path of a global installation begins,
\`FOLDER/oddslake/config/schema.json\`.

Generated from the schema by \`test/docs/settings.test.ts\` (\`UPDATE_DOCS=1 npx vitest run test/docs/settings.test.ts\`).

## Settings that people set

${formatTable(common!)}

## Advanced settings

The defaults of these settings suit most archives. They are for a service, a disk or a memory that differs from others.

${tables.join('\n')}
## sources

${sections.get('sources')}
`;
}

test('docs/SETTINGS.md is current', () => {
  expectUpToDate('docs/SETTINGS.md', page());
});

test('config/default.yaml explains every setting', () => {
  const missing = [...settingSchemas.keys()].filter((path) => !settings.get(path)?.says);
  expect(missing).toEqual([]);
});

test('config/default.yaml begins with the settings that people set', () => {
  const [head] = readFileSync(`${project}config/default.yaml`, 'utf8').split('\n\n');
  const named = [...head!.matchAll(/^# {3}(\S+): (.+)$/gm)].flatMap(([, section, names]) =>
    names!.split(', ').map((name) => (section === 'top' ? name : `${section}.${name}`)),
  );
  expect(named).toEqual([...settingSchemas].flatMap(([path, { isCommon }]) => (isCommon === true ? [path] : [])));
});

test('a number whose name ends with a unit has that unit', () => {
  for (const [path, leaf] of settingSchemas)
    if (/_(seconds|minutes|hours|days|bytes|ms)(_max|_min)?$/.test(path))
      expect(findUnit(path, leaf), path).not.toBe('');
});

test('comments are read without the parts that the schema has', () => {
  const yaml = '# The head.\n\n# A section.\nupstream:\n  # Where it\n  # is. ODDSLAKE_X. (a text)\n  base_url: null\n';
  const read = parseComments(yaml);
  expect([...read.sections]).toEqual([['upstream', 'A section.']]);
  expect([...read.settings]).toEqual([['upstream.base_url', { says: 'Where it is.' } satisfies CommentedKey]]);
});
