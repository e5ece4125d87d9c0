import { styleText } from 'node:util';
import { formatNumber } from '../base/format-quantity.ts';

export interface TerminalStyle {
  /** Columns of the terminal; null where there is none: then nothing is cut or left out. */
  readonly width: number | null;
  readonly hasColour: boolean;
}

/** Off a terminal nothing is cut: the text goes to a file or another program. One that knows no width says 0. */
export const getTerminalStyle = (stream: NodeJS.WriteStream): TerminalStyle => ({
  width: stream.isTTY && stream.columns > 0 ? stream.columns : null,
  hasColour: hasColours(stream),
});

/** Whether a stream is to have colours, by Node's own rules: a terminal that knows them, NO_COLOR, FORCE_COLOR, TERM. */
export const hasColours = (stream: NodeJS.WritableStream): boolean =>
  styleText('bold', 'x', { stream, validateStream: true }) !== 'x';

export type Paint = (text: string) => string;

const createPaint =
  (code: number): Paint =>
  (text) =>
    `\u001b[${code}m${text}\u001b[0m`;
const leaveUnpainted: Paint = (text) => text;

/** What texts are painted with; without colours they stay as they are. */
export const createPaints = (colour: boolean) => {
  const paint = (code: number): Paint => (colour ? createPaint(code) : leaveUnpainted);
  return { bold: paint(1), faint: paint(2), red: paint(31), green: paint(32), yellow: paint(33) };
};

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** What came from outside may not move the cursor, turn the direction of writing or break the line. */
export const escapeControls = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu,
    (c) => escapes[c] ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

const separator = ' · ';

/** Texts one after the other with ` · ` between them, going on in a new line where `width` columns are full. */
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
 * A text in lines of at most `width` columns, broken at blanks; a word that is longer has a line of its own. `first` stands
 * before the first line, `rest` before the others.
 */
export function wrapText(text: string, width: number | null, first = '', rest = ''): string[] {
  const [head = '', ...words] = text.split(' ');
  const lines = [first + head];
  for (const word of words) {
    const line = lines.at(-1)!;
    if (width === null || line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(rest + word);
  }
  return lines;
}

/** As many of the names as one line of `width` columns holds, at least one, and how many more there are. */
export function formatNames(names: readonly string[], count: number, width: number | null): string {
  const told = (shown: number): string => {
    const some = names.slice(0, shown).join(', ');
    return shown === count ? some : `${some} and ${formatNumber(count - shown)} more`;
  };
  let shown = Math.min(1, names.length);
  while (shown < names.length && told(shown + 1).length <= (width ?? widthDefault)) shown++;
  return told(shown);
}

/** Where there is no terminal names still have a line's room. */
const widthDefault = 100;
