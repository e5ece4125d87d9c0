import { formatBytes } from '../../../base/format-quantity.ts';
import { minuteMs } from '../../../base/window.ts';
import { ApiError, fetchApi, isAbortError, isKeyNeeded, toErrorMessage } from './api.ts';
import { formatCurlCommand } from './archive-file.ts';
import { copyText, html } from './dom.ts';
import { formatIsoTime } from './format.ts';
import type { TimeRange } from './view.ts';

/** Maximum size of a download in the browser, in bytes. The file is held in memory; larger files require curl. */
const savedBytesMax = 500_000_000;

export interface DownloadableFile {
  readonly url: string;
  readonly name: string;
  /** Text of the button. */
  readonly label: string;
  /** Null if unknown in advance. */
  readonly bytes: number | null;
  readonly sha256: string | null;
}

/** Renders a download button, a button that copies the curl command, and the progress. */
export function renderDownloadButtons(file: DownloadableFile): HTMLElement {
  const status = html`<span class="note" role="status"></span>`;
  const save = html<HTMLButtonElement>`
    <button type="button" data-download=${file.name} aria-label=${`Download ${file.name}`}>${file.label}</button>`;
  const command = formatCurlCommand(new URL(file.url, location.href).href, file.name, isKeyNeeded());
  const copy = html`
    <button type="button" class="quiet" aria-label=${`Copy the curl command for ${file.name}`}>curl</button>`;
  const commandElement = html`<code class="curl" hidden tabindex="0">${command}</code>`;
  let running: AbortController | null = null;
  if (file.bytes !== null && file.bytes > savedBytesMax) {
    save.disabled = true;
    status.textContent = 'Too large for the browser. Use curl.';
  }
  save.addEventListener('click', async () => {
    if (running !== null) return running.abort();
    running = new AbortController();
    save.textContent = 'Stop';
    try {
      await fetchAndSave(file, running.signal, (text) => (status.textContent = text));
    } catch (error) {
      status.textContent = isAbortError(error) ? 'Stopped.' : toErrorMessage(error);
    }
    save.textContent = file.label;
    running = null;
  });
  copy.addEventListener('click', async () => {
    commandElement.hidden = false;
    // If it cannot be copied, the user can select it.
    const copied = (await copyText(command)) ? 'Copied. ' : '';
    status.textContent = copied + (isKeyNeeded() ? 'The command reads the key from $ODDSLAKE_KEY.' : '');
  });
  return html`<span class="download">${save}${copy}${status}${commandElement}</span>`;
}

async function fetchAndSave(
  file: DownloadableFile,
  signal: AbortSignal,
  setStatus: (text: string) => void,
): Promise<void> {
  setStatus('Requesting…');
  const response = await fetchApi(file.url, signal);
  const total = file.bytes ?? null;
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let receivedBytes = 0;
  for (const reader = response.body!.getReader(); ; ) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      if (isAbortError(error)) throw error;
      throw new ApiError(0, 'The download failed: the service stopped, or the network connection was lost.');
    });
    if (done) break;
    chunks.push(value);
    receivedBytes += value.length;
    if (receivedBytes > savedBytesMax) {
      await reader.cancel();
      throw new ApiError(0, 'The file is too large for the browser. Use curl.');
    }
    setStatus(total === null ? formatBytes(receivedBytes) : `${formatBytes(receivedBytes)} of ${formatBytes(total)}`);
  }
  const blob = new Blob(chunks, { type: 'application/octet-stream' });
  const checked = file.sha256 === null ? null : await hasChecksum(blob, file.sha256);
  if (checked === false)
    throw new ApiError(0, 'The file differs from the manifest: it has just been replaced. Reload the page.');
  if (file.name.endsWith('.parquet') && !(await hasParquetEnds(blob)))
    throw new ApiError(0, 'The response is not a complete Parquet file. Try again.');
  const url = URL.createObjectURL(blob);
  html`<a href=${url} download=${file.name}></a>`.click();
  setTimeout(() => URL.revokeObjectURL(url), minuteMs);
  setStatus(`Saved, ${formatBytes(receivedBytes)}${checked === true ? ', SHA-256 verified' : ''}.`);
}

/** Whether a file begins and ends as Parquet files do; a file that was cut off does not. */
async function hasParquetEnds(blob: Blob): Promise<boolean> {
  const ends = await Promise.all([blob.slice(0, 4).text(), blob.slice(-4).text()]);
  return blob.size > 8 && ends.every((end) => end === 'PAR1');
}

/** Compares a checksum. Returns null if the browser does not support hashing, for example without https. */
async function hasChecksum(blob: Blob, sha256: string): Promise<boolean | null> {
  if (crypto.subtle === undefined) return null;
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') === sha256;
}

const formats = [
  // A visitor opens CSV in a spreadsheet.
  { parameters: { format: 'csv', csv_safe: 'true' }, label: 'CSV', ending: 'csv' },
  { parameters: { format: 'parquet' }, label: 'Parquet', ending: 'parquet' },
] as const;

/** Renders downloads of the published ticks in the visible range. */
export function renderSliceDownloads(symbol: string, { from, to }: TimeRange): HTMLElement {
  const safe = symbol.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 80);
  const name = `ticks-${safe}-${formatIsoTime(from)}-${formatIsoTime(to)}`.replaceAll(':', '');
  return html`
    <div class="slice">
      <h4 aria-level="2">Published ticks in this range</h4>
      ${formats.map(({ parameters, label, ending }) => {
        const query = new URLSearchParams({ symbol, from: String(from), to: String(to), ...parameters });
        const url = `/api/v1/historical/ticks?${query}`;
        return renderDownloadButtons({ url, name: `${name}.${ending}`, label, bytes: null, sha256: null });
      })}
    </div>`;
}
