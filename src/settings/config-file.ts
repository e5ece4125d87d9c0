import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Document } from 'yaml';
import { UsageError } from '../base/errors.ts';
import { mayBeKey, parseDocumentLayer, type SettingsLayer } from './layers.ts';
import { type ReportProblem, throwProblem } from './setting-error.ts';

const configBytesMax = 4 * 1024 * 1024;
const keyBytesMax = 16 * 1024;

/**
 * Reads a config file. Reports if it is missing, unreadable or not YAML, and each invalid setting; by default, throws
 * UsageError. Returns one layer, or none if the file cannot be read.
 */
export async function readConfigFile(path: string, report: ReportProblem = throwProblem): Promise<SettingsLayer[]> {
  const { LineCounter, parseDocument } = await import('yaml');
  let text: string;
  try {
    text = readText(path, 'config file', configBytesMax);
  } catch (error) {
    report(error as UsageError);
    return [];
  }
  const lineCounter = new LineCounter();
  const parsed = parseDocument(text, { prettyErrors: true, stringKeys: true, logLevel: 'error', lineCounter });
  // One mistake can cause several errors at one place.
  const errors = parsed.errors.map((error) => createYamlError(path, error));
  for (const error of new Map(errors.map((each) => [each.message, each])).values()) report(error);
  if (parsed.errors.length > 0) return [];
  let document: unknown;
  try {
    document = parsed.toJS();
  } catch (error) {
    report(createYamlError(path, error as Error));
    return [];
  }
  const lines = findLines(parsed, (offset) => lineCounter.linePos(offset).line);
  return [{ ...parseDocumentLayer(document, path, report), lines }];
}

/** The message of the parser quotes the line, which may contain a key. */
function createYamlError(path: string, error: Error): UsageError {
  const { code, linePos } = error as { code?: string; linePos?: { line: number; col: number }[] };
  const at = linePos?.[0] === undefined ? '' : ` at line ${linePos[0].line}, column ${linePos[0].col}`;
  return new UsageError(`${path}: not valid YAML${at} (${code ?? 'unreadable'})`);
}

/** The line of each key of a document, by its dotted path. */
function findLines(document: Document, toLine: (offset: number) => number): Map<string, number> {
  const lines = new Map<string, number>();
  const visitMap = (node: unknown, prefix: string): void => {
    const { items } = (node ?? {}) as { items?: unknown };
    if (!Array.isArray(items)) return;
    for (const { key, value } of items as { key?: { value?: unknown; range?: [number] | null }; value?: unknown }[]) {
      if (typeof key?.value !== 'string') continue;
      const path = prefix + key.value;
      if (key.range != null) lines.set(path, toLine(key.range[0]));
      visitMap(value, `${path}.`);
    }
  };
  visitMap(document.contents, '');
  return lines;
}

/**
 * Reads a key file at `path`, which may be relative to the folder `base`. `setting` names it in messages, which hide the path if it
 * may be the key itself: a long text without an extension whose first folder does not exist.
 * @throws UsageError if the file is missing or unreadable
 */
export function readKeyFile(base: string, path: string, setting: string): string {
  const [folder] = /^\/?[^/]+(?=\/)/.exec(path) ?? [];
  const isPath = !mayBeKey(path) || /\.[a-z]{1,5}$/.test(path) || (folder && existsSync(resolve(base, folder)));
  const file = resolve(base, path);
  return readText(file, setting, keyBytesMax, isPath ? file : '(hidden), which has to be a file and not the key');
}

const readFailureReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder, not a file',
  EACCES: 'it cannot be read: permission denied',
};

function readText(path: string, what: string, bytesMax: number, shown = path): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readBounded(path, bytesMax));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = readFailureReasons[code ?? ''] ?? `cannot be read (${code ?? message})`;
    throw new UsageError(`${what} ${shown}: ${why}`, shown === path ? { cause: error } : {});
  }
}

function readBounded(path: string, bytesMax: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(bytesMax + 1);
    let length = 0;
    // A pipe, such as a shell's <(…), returns partial reads.
    for (let read = -1; read !== 0 && length <= bytesMax; length += read) {
      read = readSync(file, buffer, length, buffer.length - length, null);
    }
    if (length > bytesMax) throw new Error(`longer than ${bytesMax} bytes`);
    return buffer.subarray(0, length);
  } finally {
    closeSync(file);
  }
}
