import type { TableStyle } from './table.ts';

/** Off a terminal nothing is cut or coloured: the text goes to a file or another program. NO_COLOR is Node's to know. */
export const styleOf = (stream: NodeJS.WriteStream): TableStyle => ({
  width: stream.isTTY ? stream.columns : null,
  colour: stream.isTTY && stream.hasColors(),
});
