const sparkLevels = '▁▂▃▄▅▆▇█';

/** A curve in one line of so many characters, from the least of its values to the greatest. */
export function formatSparkline(values: readonly number[], width: number): string {
  if (values.length === 0) return '';
  const [least, most] = [
    values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY),
  ];
  const shown = Math.min(width, values.length);
  return Array.from({ length: shown }, (_, i) => {
    // The last of each stretch: a curve ends where its values end.
    const value = values[Math.ceil(((i + 1) * values.length) / shown) - 1]!;
    const height = most === least ? 0 : (value - least) / (most - least);
    return sparkLevels[Math.min(sparkLevels.length - 1, Math.floor(height * sparkLevels.length))];
  }).join('');
}
