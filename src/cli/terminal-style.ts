import { styleText } from 'node:util';
import { type CompleteCommands, completeCommands } from '../context/command-name.ts';

export interface TerminalStyle {
  /** Width in columns; null if the output is not a terminal. Then nothing is shortened or omitted. */
  readonly width: number | null;
  readonly hasColour: boolean;
  /** Completes the commands in a text, so that they can be pasted. */
  readonly complete: CompleteCommands;
}

/** Style without a terminal: neither wrapped nor coloured, and with commands as they are in messages. */
export const plainStyle: TerminalStyle = { width: null, hasColour: false, complete: (text) => text };

/** Style of a stream. A terminal of unknown width reports 0 columns. */
export const getTerminalStyle = (stream: NodeJS.WriteStream): TerminalStyle => ({
  width: stream.isTTY && stream.columns > 0 ? stream.columns : null,
  hasColour: hasColours(stream),
  complete: completeCommands,
});

/** Whether a stream gets colours, by the rules of Node: terminal support, NO_COLOR, FORCE_COLOR, TERM. */
export const hasColours = (stream: NodeJS.WritableStream): boolean =>
  styleText('bold', 'x', { stream, validateStream: true }) !== 'x';

export type Paint = (text: string) => string;

/** Functions that colour texts. Without `hasColour` they return the text unchanged. */
export function createPaints(hasColour: boolean) {
  const paint =
    (format: Parameters<typeof styleText>[0]): Paint =>
    (text) =>
      hasColour ? styleText(format, text, { validateStream: false }) : text;
  return {
    bold: paint('bold'),
    faint: paint('dim'),
    red: paint('red'),
    green: paint('green'),
    yellow: paint('yellow'),
    cyan: paint('cyan'),
  };
}

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Escapes control characters, line separators and bidirectional controls of untrusted text. */
export const escapeControls = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu,
    (c) => escapes[c] ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
