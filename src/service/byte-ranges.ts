/** Bytes from `first` to `last`, both included, as HTTP counts them. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/** Ranges that one answer gives; whoever asks for more gets the whole, as does who asks for more bytes than there are. */
export const rangesMax = 8;

/**
 * What a Range header (RFC 9110, section 14) asks of `size` bytes: ranges inside of them, at least one, in the order
 * asked; `none` where the whole is to be sent, as the header is absent, of another unit, not well-formed, or too much;
 * `unsatisfiable` where all of it lies outside.
 */
export function parseByteRanges(
  header: string | undefined,
  size: number,
): readonly ByteRange[] | 'none' | 'unsatisfiable' {
  const [, set] = /^bytes=(.*)$/i.exec(header ?? '') ?? [];
  if (set === undefined) return 'none';
  // One more than is taken tells that there are too many; the rest of a long list is not looked at.
  const specs = set.split(',', rangesMax + 1).map((spec) => /^[ \t]*(\d*)-(\d*)[ \t]*$/.exec(spec));
  if (specs.length > rangesMax) return 'none';
  const ranges: ByteRange[] = [];
  for (const spec of specs) {
    const [, from = '', to = ''] = spec ?? [];
    const isSuffix = from === '';
    if ((isSuffix && to === '') || (!isSuffix && to !== '' && Number(from) > Number(to))) return 'none';
    const first = isSuffix ? Math.max(0, size - Number(to)) : Number(from);
    const last = isSuffix || to === '' ? size - 1 : Math.min(size - 1, Number(to));
    if (first <= last) ranges.push({ first, last });
  }
  if (ranges.length === 0) return 'unsatisfiable';
  return countRangeBytes(ranges) > size ? 'none' : ranges;
}

/** Bytes of all of them together. */
export const countRangeBytes = (ranges: readonly ByteRange[]): number =>
  ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
