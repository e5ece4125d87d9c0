import { formatNumber } from '../core/format-quantity.ts';

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
