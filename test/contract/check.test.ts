import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { settingSchemas } from '../../src/settings/layers.ts';
import {
  columns,
  commands,
  commonFlags,
  dayFields,
  exitCodes,
  fileFields,
  manifestFields,
  manifestFieldsAtTimes,
  openDayFields,
  rootFiles,
  routes,
  summaryFields,
  variables,
} from './promises.ts';

const tests = new URL('../', import.meta.url);

/** The promised names by the kinds of proofs.txt. */
const promised: Readonly<Record<string, readonly string[]>> = {
  command: Object.keys(commands),
  'common flag': commonFlags,
  flag: Object.entries(commands).flatMap(([command, flags]) => flags.map((flag) => `${command} ${flag}`)),
  'exit code': Object.keys(exitCodes),
  variable: Object.keys(variables),
  setting: [...settingSchemas.keys()],
  column: Object.entries(columns).flatMap(([dataset, of]) => Object.keys(of).map((name) => `${dataset}.${name}`)),
  manifest: [
    ...[...manifestFields, ...manifestFieldsAtTimes],
    ...[...dayFields, ...openDayFields].map((name) => `days.${name}`),
  ],
  file: fileFields,
  'root file': rootFiles,
  route: routes,
  summary: summaryFields,
};

interface Proof {
  readonly file: string;
  readonly title: string;
  readonly kind: string;
  readonly name: string;
}

const proofs: Proof[] = [];
let file = '';
for (const line of readFileSync(new URL('contract/proofs.txt', tests), 'utf8').split('\n')) {
  if (line.startsWith('  ')) {
    const [title, all] = line.trim().split(' | ') as [string, string];
    for (const ofKind of all.split('; ')) {
      const [kind, names] = ofKind.split(': ') as [string, string];
      proofs.push(...names.split(', ').map((name) => ({ file, title, kind, name })));
    }
  } else if (line !== '' && !line.startsWith('#')) file = line;
}

test('every promise has a test that proves it', () => {
  const proved = new Set(proofs.map(({ kind, name }) => `${kind}: ${name}`));
  const unproved = Object.entries(promised).flatMap(([kind, names]) =>
    proved.has(`${kind}: *`) ? [] : names.map((name) => `${kind}: ${name}`).filter((one) => !proved.has(one)),
  );
  expect(unproved).toEqual([]);
});

test('every test that proves a promise exists under its title', () => {
  const gone = proofs.flatMap(({ file, title, name }) => {
    const at = new URL(file, tests);
    const text = existsSync(at) ? readFileSync(at, 'utf8') : '';
    return [`'${title}'`, `"${title}"`, `\`${title}\``].some((quoted) => text.includes(quoted)) ? [] : [name];
  });
  expect(gone).toEqual([]);
});

test('every proof is for a promise, and each promise has one', () => {
  const stray = proofs.filter(({ kind, name }) => name !== '*' && promised[kind]?.includes(name) !== true);
  expect(stray).toEqual([]);
  const names = proofs.map(({ kind, name }) => `${kind}: ${name}`);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});
