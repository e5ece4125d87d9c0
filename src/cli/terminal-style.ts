import { styleText } from 'node:util';

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
