import { closeSync, openSync, readSync } from 'node:fs';
import { UsageError } from '../core/errors.ts';
import { parseDocumentLayer, type SettingsLayer } from './source.ts';

const configBytesMax = 4 * 1024 * 1024;
const keyBytesMax = 16 * 1024;

/** Reads a config file that was named. Throws UsageError where it is missing, unreadable, no YAML or holds bad settings. */
export async function readConfigFile(path: string): Promise<SettingsLayer> {
  const text = readText(path, 'config file', configBytesMax);
  const { parse } = await import('yaml');
  let document: unknown;
  try {
    document = parse(text, { prettyErrors: true, stringKeys: true, logLevel: 'error' });
  } catch (error) {
    // The parser's message shows the line that it stumbled over, and that may be the one with the key.
    const { code, linePos } = error as { code?: string; linePos?: { line: number; col: number }[] };
    const at = linePos?.[0] === undefined ? '' : ` at line ${linePos[0].line}, column ${linePos[0].col}`;
    throw new UsageError(`${path}: not valid YAML${at} (${code ?? 'unreadable'})`);
  }
  return parseDocumentLayer(document, path);
}

/** Reads the file that holds a key, whole; `setting` names it. Throws UsageError where it is missing or unreadable. */
export const readKeyFile = (path: string, setting: string): string => readText(path, setting, keyBytesMax);

const readFailureReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder, not a file',
  EACCES: 'it cannot be read: permission denied',
};

function readText(path: string, what: string, bytesMax: number): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readBounded(path, bytesMax));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = readFailureReasons[code ?? ''] ?? `cannot be read (${code ?? message})`;
    throw new UsageError(`${what} ${path}: ${why}`, { cause: error });
  }
}

function readBounded(path: string, bytesMax: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(bytesMax + 1);
    let length = 0;
    // A pipe, such as a shell's <(…), comes in pieces.
    for (let read = -1; read !== 0 && length <= bytesMax; length += read) {
      read = readSync(file, buffer, length, buffer.length - length, null);
    }
    if (length > bytesMax) throw new Error(`longer than ${bytesMax} bytes`);
    return buffer.subarray(0, length);
  } finally {
    closeSync(file);
  }
}
