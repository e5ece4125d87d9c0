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
import { type Proof, proofs } from './proofs.ts';

const tests = new URL('../', import.meta.url);

interface Promised {
  readonly kind: string;
  readonly name: string;
  readonly proof: Proof | undefined;
}

const rowsOf = (kind: string, names: readonly string[], proofOf: (name: string) => Proof | undefined): Promised[] =>
  names.map((name) => ({ kind, name, proof: proofOf(name) }));

const promised: readonly Promised[] = [
  ...rowsOf('Commands', Object.keys(commands), (name) => proofs.commands[name]),
  ...rowsOf('Flags of every command', commonFlags, (name) => proofs.commonFlags[name]),
  ...Object.entries(commands).flatMap(([command, flags]) =>
    rowsOf(
      'Flags of one command',
      flags.map((flag) => `${command} ${flag}`),
      (name) => proofs.flags[name],
    ),
  ),
  ...rowsOf('Exit codes', Object.keys(exitCodes), (code) => proofs.exitCodes[Number(code)]),
  ...rowsOf('Variables of the environment', Object.keys(variables), (name) => proofs.variables[name]),
  ...rowsOf('Settings', [...settingSchemas.keys()], (name) => proofs.settings[name]),
  ...Object.entries(columns).flatMap(([dataset, ofDataset]) =>
    rowsOf(
      'Columns',
      Object.keys(ofDataset).map((name) => `${dataset}.${name}`),
      (name) => proofs.columns[name] ?? proofs.everyColumn,
    ),
  ),
  ...rowsOf('Fields of the manifest', [...manifestFields, ...manifestFieldsAtTimes], (name) => proofs.manifest[name]),
  ...rowsOf(
    'Fields of the manifest',
    [...dayFields, ...openDayFields].map((name) => `days.${name}`),
    (name) => proofs.manifest[name],
  ),
  ...rowsOf(
    'Fields of the manifest',
    fileFields.map((name) => `files.${name}`),
    () => proofs.everyFileField,
  ),
  ...rowsOf('Files of the root', rootFiles, (name) => proofs.rootFiles[name]),
  ...rowsOf('Routes of the service', routes, (name) => proofs.routes[name]),
  ...rowsOf('Fields of a summary', summaryFields, (name) => proofs.summary[name] ?? proofs.everySummaryField),
];

test('every promise has a test that proves it', () => {
  const unproved = promised.filter(({ proof }) => proof === undefined).map(({ kind, name }) => `${kind}: ${name}`);
  expect(unproved).toEqual([]);
});

test('every test that proves a promise exists under its title', () => {
  const gone = promised.flatMap(({ name, proof }) => {
    const [file, title] = proof ?? ['', ''];
    const at = new URL(file, tests);
    const text = file !== '' && existsSync(at) ? readFileSync(at, 'utf8') : '';
    return [`'${title}'`, `"${title}"`, `\`${title}\``].some((quoted) => text.includes(quoted)) ? [] : [name];
  });
  expect(gone).toEqual([]);
});

test('every proof is for a promise', () => {
  const names = new Set(promised.map(({ name }) => name));
  const { everyColumn: _column, everyFileField: _file, everySummaryField: _summary, ...byName } = proofs;
  const stray = Object.values(byName).flatMap((of) => Object.keys(of).filter((name) => !names.has(name)));
  expect(stray).toEqual([]);
});
