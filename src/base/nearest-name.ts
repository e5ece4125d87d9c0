/** Returns the known name that most resembles the given one: another spelling, the last part alone, or a few typos. */
export function findNearestName(given: string, known: readonly string[]): string | undefined {
  const target = normalizeName(given);
  const same = known.filter((name) => normalizeName(name) === target);
  if (same.length > 0) return same[0];
  const sameLast = known.filter((name) => normalizeName(toLastPart(name)) === normalizeName(toLastPart(given)));
  if (sameLast.length === 1) return sameLast[0];
  // Names are short, so a long text is not a misspelled name.
  const typosMax = Math.min(3, target.length < 3 ? 0 : Math.max(1, target.length / 4));
  let best: { name: string; typos: number } | undefined;
  for (const name of known) {
    const typos = Math.min(
      computeEditDistance(target, normalizeName(name), typosMax),
      computeEditDistance(target, normalizeName(toLastPart(name)), typosMax),
    );
    if (typos <= typosMax && (best === undefined || typos < best.typos)) best = { name, typos };
  }
  return best?.name;
}

/** ` (Did you mean NAME?)`, or an empty text if no known name resembles the given one. */
export function suggestName(given: string, known: readonly string[]): string {
  const guess = findNearestName(given, known);
  return guess === undefined ? '' : ` (Did you mean ${guess}?)`;
}

const toLastPart = (name: string): string => name.slice(name.lastIndexOf('.') + 1);
const normalizeName = (name: string): string =>
  name
    .slice(0, 100)
    .replace(/[a-z](?=[A-Z])/g, '$&_')
    .replaceAll('-', '_')
    .toLowerCase();

/**
 * Edit distance: insertions, deletions, replacements, and exchanges of two neighbors. Infinity if it is more than `max` in
 * every way of aligning a prefix.
 */
function computeEditDistance(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) > max) return Number.POSITIVE_INFINITY;
  let twoAbove: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const replaced = above[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isExchange = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const exchanged = isExchange ? twoAbove[j - 2]! + 1 : Number.POSITIVE_INFINITY;
      row.push(Math.min(replaced, exchanged, above[j]! + 1, row[j - 1]! + 1));
      least = Math.min(least, row[j]!);
    }
    // An exchange reaches back by two rows.
    if (least > max + 1) return Number.POSITIVE_INFINITY;
    twoAbove = above;
    above = row;
  }
  return above[b.length]!;
}
