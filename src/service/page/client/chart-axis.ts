const dayMs = 86_400_000;
const monthNames = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Labels of a time axis in UTC: each says what it must, and the day or year below where it is another than before. */
export function formatAxisLabels(splits: readonly number[], stepMs: number): string[] {
  let before = '';
  return splits.map((t) => {
    const [above, below] = formatAxisLabel(t, stepMs);
    const label = below === before ? above : `${above}\n${below}`;
    before = below;
    return label;
  });
}

function formatAxisLabel(t: number, stepMs: number): [above: string, below: string] {
  const date = new Date(t);
  const iso = date.toISOString();
  const month = monthNames[date.getUTCMonth()]!;
  const day = `${date.getUTCDate()} ${month}`;
  if (stepMs >= 28 * dayMs) return [month, iso.slice(0, 4)];
  if (stepMs >= dayMs) return [day, iso.slice(0, 4)];
  return [iso.slice(11, stepMs < 1000 ? 23 : stepMs < 60_000 ? 19 : 16), `${day} ${iso.slice(0, 4)}`];
}
