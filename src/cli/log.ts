import type { Writable } from 'node:stream';
import type { Log } from '../base/ports.ts';
import { createRedactor, type Settings } from '../settings/settings.ts';
import { createPaints } from './terminal-style.ts';

type LogLevel = Settings['log']['level'];

export interface CliLogOptions {
  /** Minimum level; `silent` writes nothing. */
  readonly level: LogLevel;
  /** Output stream. A terminal gets readable lines, any other stream one JSON object per line. */
  readonly stream: Writable & { readonly isTTY?: boolean };
  /** On a terminal: whether it supports colours, and whether it can redraw a line. Both default to true. */
  readonly colour?: boolean;
  readonly draws?: boolean;
  /** Secrets, such as API keys, which are redacted anywhere in a line. */
  readonly secrets?: readonly string[];
}

/** Opens the log. Imports pino lazily, because most commands log nothing. */
export async function createLog({
  level,
  stream,
  colour = true,
  draws = true,
  secrets = [],
}: CliLogOptions): Promise<Log> {
  const { pino, stdTimeFunctions } = await import('pino');
  const redact = createRedactor(secrets);
  // Clears a progress bar on this line; the bar is then redrawn below.
  const clearLine = draws ? '\r\u001b[2K' : '';
  const format =
    stream.isTTY === true ? (line: string) => clearLine + formatLogLine(line, colour) : (line: string) => line;
  const options = {
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: secretPaths, censor: '(hidden)' },
  };
  const log: Log = pino(options, { write: (line: string) => void stream.write(redact(format(line))) });
  return log;
}

const secretNames = [
  'apiKey',
  'api_key',
  'fromApiKey',
  'from_api_key',
  'webhookUrl',
  'webhook_url',
  'pingUrl',
  'ping_url',
  'pingStartUrl',
  'pingFailUrl',
  'smtpUrl',
  'smtp_url',
  '["x-api-key"]',
  'authorization',
];
const secretPaths = ['', '*.', '*.*.'].flatMap((prefix) =>
  secretNames.map((name) => (name.startsWith('[') ? prefix.slice(0, -1) + name : prefix + name)),
);

const levelColours: Readonly<Record<string, 'yellow' | 'red'>> = { warn: 'yellow', error: 'red', fatal: 'red' };

/** Formats `12:00:00 warn  symbol suspended  symbol=ABC runs=5`, with the stack of an error below. */
function formatLogLine(line: string, colour: boolean): string {
  const { time, level, msg, err, ...facts } = JSON.parse(line) as Record<string, unknown>;
  const { stack, message } = (err ?? {}) as { stack?: string; message?: string };
  const details = Object.entries(facts).map(([name, value]) => toOneLine(`${name}=${formatLogValue(value)}`));
  const paint = createPaints(colour)[levelColours[String(level)] ?? 'faint'];
  const heading = `${String(time).slice(11, 19)} ${paint(String(level).padEnd(5))} ${toOneLine(String(msg ?? ''))}`;
  const stackText = err === undefined ? '' : `\n${replaceControls(stack ?? message ?? formatLogValue(err))}`;
  return `${[heading, details.join(' ')].filter((text) => text !== '').join('  ')}${stackText}\n`;
}

const formatLogValue = (value: unknown): string =>
  typeof value === 'string' && /^[\w.:/+-]+$/.test(value) ? value : JSON.stringify(value);

/** Replaces control characters: upstream data must not control the terminal. */
const replaceControls = (text: string): string => text.replace(/[\p{Cc}--[\n]]/gv, '\ufffd');
const toOneLine = (text: string): string => replaceControls(text).replaceAll('\n', ' ');
