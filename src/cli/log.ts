import type { Writable } from 'node:stream';
import type { Log } from '../core/log.ts';
import { hiding } from '../settings/secrets.ts';
import type { Settings } from '../settings/settings.ts';

type Level = Settings['log']['level'];

export interface LogOptions {
  /** Least level that is written; `silent` for none. */
  readonly level: Level;
  /** Where lines go; a terminal gets readable ones, anything else one JSON object a line. */
  readonly stream: Writable & { readonly isTTY?: boolean };
  /** Texts that never leave, wherever in a line they stand: the key. */
  readonly secrets?: readonly string[];
}

/** Opens the log; pino is loaded only here, as commands that log nothing should not wait for it. */
export async function createLog({ level, stream, secrets = [] }: LogOptions): Promise<Log> {
  const { pino, stdTimeFunctions } = await import('pino');
  const hide = hiding(secrets);
  const shape = stream.isTTY === true ? readable : (line: string) => line;
  const options = {
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: secretPaths, censor: '(hidden)' },
  };
  const log: Log = pino(options, { write: (line: string) => void stream.write(hide(shape(line))) });
  return log;
}

const secretNames = [
  'apiKey',
  'api_key',
  'fromApiKey',
  'from_api_key',
  'webhookUrl',
  'webhook_url',
  '["x-api-key"]',
  'authorization',
];
const secretPaths = ['', '*.', '*.*.'].flatMap((above) =>
  secretNames.map((name) => (name.startsWith('[') ? above.slice(0, -1) + name : above + name)),
);

const colours: Readonly<Record<string, string>> = { warn: '\u001b[33m', error: '\u001b[31m', fatal: '\u001b[31m' };

/** `12:00:00 warn  symbol retired  symbol=ABC runs=5`, and an error's stack below it. */
function readable(line: string): string {
  const { time, level, msg, err, ...facts } = JSON.parse(line) as Record<string, unknown>;
  const { stack, message } = (err ?? {}) as { stack?: string; message?: string };
  const details = Object.entries(facts).map(([name, value]) => oneLine(`${name}=${plain(value)}`));
  const colour = colours[String(level)] ?? '\u001b[2m';
  const head = `${String(time).slice(11, 19)} ${colour}${String(level).padEnd(5)}\u001b[0m ${oneLine(String(msg ?? ''))}`;
  const below = err === undefined ? '' : `\n${printable(stack ?? message ?? plain(err))}`;
  // A progress bar may stand in this line; it is drawn again below.
  return `\r\u001b[2K${[head, details.join(' ')].filter((text) => text !== '').join('  ')}${below}\n`;
}

const plain = (value: unknown): string =>
  typeof value === 'string' && /^[\w.:/+-]+$/.test(value) ? value : JSON.stringify(value);

/** What an upstream sends must not steer the reader's terminal. */
const printable = (text: string): string => text.replace(/[\p{Cc}--[\n]]/gv, '\ufffd');
const oneLine = (text: string): string => printable(text).replaceAll('\n', ' ');
