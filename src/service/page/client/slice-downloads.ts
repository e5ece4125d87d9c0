import { el } from './dom.ts';
import { downloadButtons } from './download.ts';
import { isoText } from './format.ts';
import type { Range } from './view.ts';

const formats = [
  { format: 'csv', label: 'CSV', ending: 'csv' },
  { format: 'parquet', label: 'Parquet', ending: 'parquet' },
] as const;

/** The published ticks of the stretch that is shown, as files. */
export function sliceDownloads(symbol: string, { from, to }: Range): HTMLElement {
  const safe = symbol.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 80);
  const name = `ticks-${safe}-${isoText(from)}-${isoText(to)}`.replaceAll(':', '');
  return el(
    'div',
    { class: 'slice' },
    el('h4', {}, 'Published ticks of this stretch'),
    ...formats.map(({ format, label, ending }) => {
      const query = new URLSearchParams({ symbol, from: String(from), to: String(to), format });
      const url = `/api/v1/historical/ticks?${query}`;
      return downloadButtons({ url, name: `${name}.${ending}`, label, bytes: null, sha256: null });
    }),
  );
}
