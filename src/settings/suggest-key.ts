/** The known key that was probably meant, or undefined: another spelling, its own name alone, or a few slips away. */
export function findNearestKey(given: string, known: readonly string[]): string | undefined {
  const wanted = normalizeKey(given);
  const same = known.filter((key) => normalizeKey(key) === wanted);
  if (same.length > 0) return same[0];
  const sameName = known.filter((key) => normalizeKey(toLastName(key)) === normalizeKey(toLastName(given)));
  if (sameName.length === 1) return sameName[0];
  const slips = (key: string) =>
    Math.min(
      computeEditDistance(wanted, normalizeKey(key)),
      computeEditDistance(wanted, normalizeKey(toLastName(key))),
    );
  const ranked = known.map((key) => ({ key, slips: slips(key) })).sort((a, b) => a.slips - b.slips);
  const best = ranked[0];
  // Keys are short; a long one is no slip of theirs, and comparing costs its length.
  return best !== undefined && best.slips <= Math.min(3, wanted.length / 4) ? best.key : undefined;
}

const toLastName = (key: string): string => key.slice(key.lastIndexOf('.') + 1);
const normalizeKey = (key: string): string =>
  key
    .slice(0, 100)
    .replace(/[a-z](?=[A-Z])/g, '$&_')
    .replaceAll('-', '_')
    .toLowerCase();

/** Levenshtein distance: insertions, deletions and replacements. */
function computeEditDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = above[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, above[j]! + 1, row[j - 1]! + 1));
    }
    above = row;
  }
  return above[b.length]!;
}
