import { createRequire } from 'node:module';
import type { Writable } from 'node:stream';
import type { Log } from '../base/ports.ts';
import type { CompleteCommands } from '../context/command-name.ts';
import { createRedactor, type Settings } from '../settings/settings.ts';
import { wrapAdvice } from './table.ts';
import { createPaints } from './terminal-style.ts';

type LogLevel = Settings['log']['level'];

export interface CliLogOptions {
  /** Minimum level; `silent` writes nothing. */
  readonly level: LogLevel;
  /** Output stream. */
  readonly stream: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  /** `auto`, the default: a terminal gets readable lines, any other stream one JSON object per line. */
  readonly format?: Settings['log']['format'];
  /** On a terminal: whether it supports colours, and whether it can redraw a line. Both default to true. */
  readonly colour?: boolean;
  readonly draws?: boolean;
  /** Secrets, such as API keys, which are redacted anywhere in a line. */
  readonly secrets?: readonly string[];
  /** Completes the commands in a line for a terminal. */
  readonly complete?: CompleteCommands;
}

/** Opens the log. Loads pino at the first line that is written, because most commands log nothing. */
export function createLog(options: CliLogOptions): Log {
  const { level } = options;
  let opened: Log | undefined;
  const createMethod =
    (name: keyof Log): Log[keyof Log] =>
    (facts, message) => {
      if (levels.indexOf(name) < levels.indexOf(level)) return;
      opened ??= openPino(options);
      opened[name](facts, message);
    };
  return {
    debug: createMethod('debug'),
    info: createMethod('info'),
    warn: createMethod('warn'),
    error: createMethod('error'),
  };
}

/** In ascending order. */
const levels: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

const require = createRequire(import.meta.url);

function openPino({
  level,
  stream,
  format = 'auto',
  colour = true,
  draws = true,
  secrets = [],
  complete = (text) => text,
}: CliLogOptions): Log {
  const { pino, stdTimeFunctions } = require('pino') as typeof import('pino');
  const redact = createRedactor(secrets);
  // Clears a progress bar on this line; the bar is then redrawn below.
  const isTerminal = stream.isTTY === true;
  const clearLine = isTerminal && draws ? '\r\u001b[2K' : '';
  const isText = format === 'text' || (format === 'auto' && isTerminal);
  const formatLine = (line: string): string =>
    // Redacted first: a wrapped line could break a secret that has a space.
    isText
      ? clearLine + formatLogLine(redact(line), isTerminal ? { colour, columns: stream.columns, complete } : null)
      : line;
  const options = {
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: secretPaths, censor: '(hidden)' },
  };
  return pino(options, { write: (line: string) => void stream.write(redact(formatLine(line))) });
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
  '["x-api-key"]',
  'authorization',
];
const secretPaths = ['', '*.', '*.*.'].flatMap((prefix) =>
  secretNames.map((name) => (name.startsWith('[') ? prefix.slice(0, -1) + name : prefix + name)),
);

const levelColours: Readonly<Record<string, 'yellow' | 'red'>> = { warn: 'yellow', error: 'red', fatal: 'red' };

/** Columns of a terminal of unknown width. */
const columnsDefault = 80;

/**
 * Formats `12:00:00 warn  symbol suspended  symbol=ABC runs=5`, with the stack of an error below. On a terminal, a longer line
 * continues below its message. Elsewhere it is one line, with the date, because a file spans days.
 */
function formatLogLine(
  line: string,
  terminal: { colour: boolean; columns: number | undefined; complete: CompleteCommands } | null,
): string {
  const { time, level, msg, err, ...facts } = JSON.parse(line) as Record<string, unknown>;
  const { stack, message } = (err ?? {}) as { stack?: string; message?: string };
  const details = Object.entries(facts).map(([name, value]) => toOneLine(`${name}=${formatLogValue(value)}`));
  const paint = createPaints(terminal?.colour === true)[levelColours[String(level)] ?? 'faint'];
  const timeText = terminal === null ? String(time) : String(time).slice(11, 19);
  const lead = `${timeText} ${paint(String(level).padEnd(5))} `;
  const text = [toOneLine(String(msg ?? '')), details.join(' ')].filter((part) => part !== '').join('  ');
  const indent = ' '.repeat(timeText.length + 7);
  const columns = terminal === null ? null : (terminal.columns ?? 0) > 0 ? terminal.columns! : columnsDefault;
  const lines =
    columns === null ? [lead + text] : wrapAdvice(text, { complete: terminal!.complete, width: columns }, lead, indent);
  const stackText = err === undefined ? '' : `\n${replaceControls(stack ?? message ?? formatLogValue(err))}`;
  return `${lines.join('\n')}${stackText}\n`;
}

const formatLogValue = (value: unknown): string =>
  typeof value === 'string' && /^[\w.:/+-]+$/.test(value) ? value : JSON.stringify(value);

/** Replaces control characters: upstream data must not control the terminal. */
const replaceControls = (text: string): string => text.replace(/[\p{Cc}--[\n]]/gv, '\ufffd');
const toOneLine = (text: string): string => replaceControls(text).replaceAll('\n', ' ');
