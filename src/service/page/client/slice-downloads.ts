import { createElement } from './dom.ts';
import { renderDownloadButtons } from './download.ts';
import { formatIsoTime } from './format.ts';
import type { TimeRange } from './view.ts';

const formats = [
  { format: 'csv', label: 'CSV', ending: 'csv' },
  { format: 'parquet', label: 'Parquet', ending: 'parquet' },
] as const;

/** The published ticks of the stretch that is shown, as files. */
export function renderSliceDownloads(symbol: string, { from, to }: TimeRange): HTMLElement {
  const safe = symbol.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 80);
  const name = `ticks-${safe}-${formatIsoTime(from)}-${formatIsoTime(to)}`.replaceAll(':', '');
  return createElement(
    'div',
    { class: 'slice' },
    createElement('h4', {}, 'Published ticks of this stretch'),
    ...formats.map(({ format, label, ending }) => {
      const query = new URLSearchParams({ symbol, from: String(from), to: String(to), format });
      const url = `/api/v1/historical/ticks?${query}`;
      return renderDownloadButtons({ url, name: `${name}.${ending}`, label, bytes: null, sha256: null });
    }),
  );
}
