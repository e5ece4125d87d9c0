import { formatBytes, formatCount, formatNumber, shortenText } from '../../../base/format-quantity.ts';
import { dayMs } from '../../../base/window.ts';
import type { DayState } from '../../../contract/day-reasons.ts';
import { listFilesOfDay, type Manifest, type ManifestFile, toFileName, toFileUrl } from './archive-file.ts';
import { formatCoverageShare } from './day-kind.ts';
import { html, renderTableHead } from './dom.ts';
import { type DownloadableFile, renderDownloadButtons } from './download.ts';

/** Renders the files of a day with downloads, and its missing symbols. */
export function renderDayFiles(
  manifest: Manifest,
  date: string,
  isDamaged: boolean,
  choose: (symbol: string) => void,
): HTMLElement {
  const state = manifest.days[date];
  const datasets = listFilesOfDay(manifest, date);
  const files = datasets.flatMap((dataset) => dataset.files);
  const summary = state && `${isDamaged ? 'As published: ' : ''}${formatCoverageShare(state)}`;
  return html`
    <div class="panel" id="day-files">
      <h3 tabindex="-1">Files of ${date}</h3>
      <p class="note">${summary ?? 'The archive has no data for this day.'}</p>
      ${state !== undefined && !isDamaged && renderDayReason(state)}
      ${
        isDamaged &&
        html`<p class="failed">Files of this day are damaged, and the service refuses to send them. To repair them, run <code>oddslake verify --repair</code></p>`
      }
      ${renderDayDownload(date, datasets.find(({ dataset }) => dataset === 'ticks')?.files ?? [])}
      ${renderMissingSymbols(state?.missing ?? [], state === undefined ? 0 : state.expected - state.covered, choose)}
      ${files.length === 0 ? html`<p class="empty">There are no files for this day.</p>` : renderFilesTable(files)}
    </div>`;
}

/** Renders why a day is not complete, and what completes it, with its command. */
function renderDayReason({ state, reason, next_action: action }: DayState): HTMLElement[] {
  if (reason === undefined) return [];
  const meaning = state === 'provisional' ? 'Covered, not proven yet: ' : 'Not complete: ';
  const sentence = action && action[0]!.toUpperCase() + action.slice(1);
  const [, clause, command] = /^(.*:) (oddslake .*)$/s.exec(sentence ?? '') ?? [];
  return [
    html`<p class="day-reason">${meaning}${reason}.</p>`,
    ...(sentence == null
      ? []
      : [
          html`<p class="day-reason">${clause === undefined ? sentence : [`${clause} `, html`<code>${command}</code>`]}</p>`,
        ]),
  ];
}

/** Renders the download of all ticks of a day as one Parquet file. */
function renderDayDownload(date: string, files: readonly ManifestFile[]): HTMLElement | null {
  if (files.length === 0) return null;
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  return html`
    <div class="day-download">
      <p>
        <strong>All ticks of the day in one Parquet file</strong>
        <span class="note">${formatCount(rows, 'row')}: symbol, t, p; sorted by symbol and time</span>
      </p>
      ${renderDownloadButtons(toDayFile(date, files))}
    </div>`;
}

/** The published file if there is only one, which has a SHA-256; otherwise the service joins them. */
function toDayFile(date: string, files: readonly ManifestFile[]): DownloadableFile {
  const common = { name: `ticks-${date}.parquet`, label: 'Download the day' };
  const [only] = files;
  if (files.length === 1 && only !== undefined)
    return { ...common, url: toFileUrl(only), bytes: only.bytes, sha256: only.sha256 };
  const from = Date.parse(date);
  const query = new URLSearchParams({ from: String(from), to: String(from + dayMs), format: 'parquet' });
  return { ...common, url: `/api/v1/historical/ticks?${query}`, bytes: null, sha256: null };
}

/** Renders the files without a day, for example the symbols dataset. */
export function renderUndatedFiles(manifest: Manifest): HTMLElement | null {
  const files = Object.values(manifest.datasets).flatMap((dataset) =>
    dataset.files.filter(({ date }) => date === null),
  );
  return files.length === 0 ? null : renderFilesTable(files);
}

const renderFilesTable = (files: readonly ManifestFile[]): HTMLElement => html`
  <table class="files">
    ${renderTableHead(['File', 'Rows', 'Size', 'Download'])}
    <tbody>${files.map(renderFileRow)}</tbody>
  </table>`;

function renderFileRow(file: ManifestFile): HTMLElement {
  const { path, rows, bytes, sha256 } = file;
  return html`
    <tr>
      <th scope="row" title=${`sha256 ${sha256}`}>${path.replace(/\/date=[\d-]+\//, '/')}</th>
      <td data-label="rows">${formatNumber(rows)}</td>
      <td title=${`${formatNumber(bytes)} bytes`}>${formatBytes(bytes)}</td>
      <td>${renderDownloadButtons({ url: toFileUrl(file), name: toFileName(file), label: 'Download', bytes, sha256 })}</td>
    </tr>`;
}

function renderMissingSymbols(
  missing: readonly string[],
  missingCount: number,
  choose: (symbol: string) => void,
): HTMLElement | null {
  if (missing.length === 0) return null;
  const rest = missingCount - missing.length;
  const links = missing.map(
    (symbol) => html`
      <li>
        <button type="button" class="link" title=${symbol} @click=${() => choose(symbol)}>${shortenText(symbol, 40)}</button>
      </li>`,
  );
  return html`
    <details>
      <summary>${formatCount(missingCount, 'symbol')} not fully covered</summary>
      <ul class="missing">
        ${links}
        ${rest > 0 && html`<li class="note">and ${formatNumber(rest)} more</li>`}
      </ul>
    </details>`;
}
