import { styleText } from 'node:util';
import { formatNumber } from '../base/format-quantity.ts';

export interface TerminalStyle {
  /** Width in columns; null if the output is not a terminal. Then nothing is shortened or omitted. */
  readonly width: number | null;
  readonly hasColour: boolean;
}

/** Style of a stream. A terminal of unknown width reports 0 columns. */
export const getTerminalStyle = (stream: NodeJS.WriteStream): TerminalStyle => ({
  width: stream.isTTY && stream.columns > 0 ? stream.columns : null,
  hasColour: hasColours(stream),
});

/** Whether a stream gets colours, by the rules of Node: terminal support, NO_COLOR, FORCE_COLOR, TERM. */
export const hasColours = (stream: NodeJS.WritableStream): boolean =>
  styleText('bold', 'x', { stream, validateStream: true }) !== 'x';

export type Paint = (text: string) => string;

const createPaint =
  (code: number): Paint =>
  (text) =>
    `\u001b[${code}m${text}\u001b[0m`;
const leaveUnpainted: Paint = (text) => text;

/** Functions that colour texts. Without `colour` they return the text unchanged. */
export const createPaints = (colour: boolean) => {
  const paint = (code: number): Paint => (colour ? createPaint(code) : leaveUnpainted);
  return { bold: paint(1), faint: paint(2), red: paint(31), green: paint(32), yellow: paint(33) };
};

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Escapes control characters, line separators and bidirectional controls of untrusted text. */
export const escapeControls = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu,
    (c) => escapes[c] ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

const separator = ' · ';

/** Joins texts by ` · `, in lines of at most `width` columns. */
export function joinParts(parts: readonly string[], width: number | null): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    if (last !== undefined && (width === null || last.length + separator.length + part.length <= width))
      lines[lines.length - 1] = last + separator + part;
    else lines.push(...wrapText(part, width));
  }
  return lines;
}

/**
 * Wraps a text at spaces to lines of at most `width` columns. A longer word gets its own line.
 * @param first prefix of the first line
 * @param rest prefix of the other lines
 */
export function wrapText(text: string, width: number | null, first = '', rest = ''): string[] {
  const [firstWord = '', ...words] = text.split(' ');
  const lines = [first + firstWord];
  for (const word of words) {
    const line = lines.at(-1)!;
    if (width === null || line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(rest + word);
  }
  return lines;
}

/** As many names as fit into one line of `width` columns, at least one, and the number of the others. */
export function formatNames(names: readonly string[], count: number, width: number | null): string {
  const formatShown = (shown: number): string => {
    const shownNames = names.slice(0, shown).join(', ');
    return shown === count ? shownNames : `${shownNames} and ${formatNumber(count - shown)} more`;
  };
  let shown = Math.min(1, names.length);
  while (shown < names.length && formatShown(shown + 1).length <= (width ?? widthDefault)) shown++;
  return formatShown(shown);
}

/** Line width for names without a terminal, in columns. */
const widthDefault = 100;
