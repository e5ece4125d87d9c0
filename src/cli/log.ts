import type { Writable } from 'node:stream';
import type { Log } from '../base/ports.ts';
import { createRedactor, type Settings } from '../settings/settings.ts';
import { createPaints } from './terminal-style.ts';

type LogLevel = Settings['log']['level'];

export interface CliLogOptions {
  /** Least level that is written; `silent` for none. */
  readonly level: LogLevel;
  /** Where lines go; a terminal gets readable ones, anything else one JSON object a line. */
  readonly stream: Writable & { readonly isTTY?: boolean };
  /** On a terminal: whether it has colours, and whether it can draw a line anew; both where it is not given. */
  readonly colour?: boolean;
  readonly draws?: boolean;
  /** Texts that never leave, wherever in a line they stand: the key. */
  readonly secrets?: readonly string[];
}

/** Opens the log; pino is loaded only here, as commands that log nothing should not wait for it. */
export async function createLog({
  level,
  stream,
  colour = true,
  draws = true,
  secrets = [],
}: CliLogOptions): Promise<Log> {
  const { pino, stdTimeFunctions } = await import('pino');
  const hide = createRedactor(secrets);
  // A progress bar may stand in this line; it is drawn again below.
  const start = draws ? '\r\u001b[2K' : '';
  const shape = stream.isTTY === true ? (line: string) => start + formatLogLine(line, colour) : (line: string) => line;
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

const levelColours: Readonly<Record<string, 'yellow' | 'red'>> = { warn: 'yellow', error: 'red', fatal: 'red' };

/** `12:00:00 warn  symbol retired  symbol=ABC runs=5`, and an error's stack below it. */
function formatLogLine(line: string, colour: boolean): string {
  const { time, level, msg, err, ...facts } = JSON.parse(line) as Record<string, unknown>;
  const { stack, message } = (err ?? {}) as { stack?: string; message?: string };
  const details = Object.entries(facts).map(([name, value]) => toOneLine(`${name}=${formatLogValue(value)}`));
  const paint = createPaints(colour)[levelColours[String(level)] ?? 'faint'];
  const head = `${String(time).slice(11, 19)} ${paint(String(level).padEnd(5))} ${toOneLine(String(msg ?? ''))}`;
  const below = err === undefined ? '' : `\n${replaceControls(stack ?? message ?? formatLogValue(err))}`;
  return `${[head, details.join(' ')].filter((text) => text !== '').join('  ')}${below}\n`;
}

const formatLogValue = (value: unknown): string =>
  typeof value === 'string' && /^[\w.:/+-]+$/.test(value) ? value : JSON.stringify(value);

/** What an upstream sends must not steer the reader's terminal. */
const replaceControls = (text: string): string => text.replace(/[\p{Cc}--[\n]]/gv, '\ufffd');
const toOneLine = (text: string): string => replaceControls(text).replaceAll('\n', ' ');
