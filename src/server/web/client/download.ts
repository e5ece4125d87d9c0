import { ApiError, fetchApi, isAbortError, toErrorMessage } from './api.ts';
import { formatCurlCommand } from './archive-file.ts';
import { createElement } from './dom.ts';
import { formatBytes, formatIsoTime } from './format.ts';
import type { TimeRange } from './view.ts';

/** Bytes that are taken through the browser's memory; greater files are for curl. */
const savedBytesMax = 500_000_000;

export interface DownloadableFile {
  readonly url: string;
  readonly name: string;
  /** What the button says. */
  readonly label: string;
  /** Null where nobody knows before. */
  readonly bytes: number | null;
  readonly sha256: string | null;
}

/** A button that fetches a file with the key and saves it, one that copies the line for curl, and how far it is. */
export function renderDownloadButtons(file: DownloadableFile): HTMLElement {
  const told = createElement('span', { class: 'note', role: 'status' });
  const save = createElement(
    'button',
    { type: 'button', 'data-download': file.name, 'aria-label': `Download ${file.name}` },
    file.label,
  );
  const line = formatCurlCommand(new URL(file.url, location.href).href, file.name);
  const copy = createElement(
    'button',
    { type: 'button', class: 'quiet', 'aria-label': `Copy the curl line for ${file.name}` },
    'curl',
  );
  const shown = createElement('code', { class: 'curl', hidden: true, tabindex: 0 }, line);
  let under: AbortController | null = null;
  if (file.bytes !== null && file.bytes > savedBytesMax) {
    save.disabled = true;
    told.textContent = 'Too great for a browser: use curl.';
  }
  save.addEventListener('click', async () => {
    if (under !== null) return under.abort();
    under = new AbortController();
    save.textContent = 'Stop';
    try {
      await fetchAndSave(file, under.signal, (text) => (told.textContent = text));
    } catch (error) {
      told.textContent = isAbortError(error) ? 'Stopped.' : toErrorMessage(error);
    }
    save.textContent = file.label;
    under = null;
  });
  copy.addEventListener('click', async () => {
    shown.hidden = false;
    // Outside of https there is no clipboard: the line is there to be marked by hand.
    const copied = await navigator.clipboard?.writeText(line).then(
      () => true,
      () => false,
    );
    told.textContent =
      copied === true ? 'Copied; it reads the key from $ODDSLAKE_KEY.' : 'It reads the key from $ODDSLAKE_KEY.';
  });
  return createElement('span', { class: 'download' }, save, copy, told, shown);
}

async function fetchAndSave(file: DownloadableFile, signal: AbortSignal, tell: (text: string) => void): Promise<void> {
  tell('Asking…');
  const answer = await fetchApi(file.url, signal);
  const total = file.bytes ?? null;
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let got = 0;
  for (const reader = answer.body!.getReader(); ; ) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      if (isAbortError(error)) throw error;
      throw new ApiError(0, 'The download broke off: the service stopped, or the network is gone.');
    });
    if (done) break;
    pieces.push(value);
    got += value.length;
    if (got > savedBytesMax) {
      await reader.cancel();
      throw new ApiError(0, 'This is too great for a browser: use curl.');
    }
    tell(total === null ? formatBytes(got) : `${formatBytes(got)} of ${formatBytes(total)}`);
  }
  const blob = new Blob(pieces, { type: 'application/octet-stream' });
  const checked = file.sha256 === null ? null : await hasChecksum(blob, file.sha256);
  if (checked === false)
    throw new ApiError(0, 'What came is not what the manifest lists: the file was just replaced. Reload the page.');
  const url = URL.createObjectURL(blob);
  const link = createElement('a', { href: url, download: file.name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  tell(`Saved, ${formatBytes(got)}${checked === true ? ', sha256 as listed' : ''}.`);
}

/** Null where the browser computes no hashes, as it does on plain http from elsewhere. */
async function hasChecksum(blob: Blob, sha256: string): Promise<boolean | null> {
  if (crypto.subtle === undefined) return null;
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') === sha256;
}

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
