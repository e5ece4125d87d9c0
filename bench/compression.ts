/**
 * Measures the levels of the content codings: CPU time per megabyte and ratio, for pages as the service sends them.
 * Run: node bench/compression.ts
 */
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';

const dayMs = 86_400_000;
const rows = (count: number) => {
  let price = 500;
  return Array.from({ length: count }, (_, i) => {
    price = Math.min(999, Math.max(1, price + Math.floor(Math.random() * 5) - 2));
    return { t: Date.UTC(2026, 0, 1) + i * 60_000 + Math.floor(Math.random() * 60_000), p: price / 1000 };
  });
};
const words = 'will the price of bitcoin be above below at close on monday march election winner team final'.split(' ');
const sentence = (): string =>
  Array.from({ length: 12 }, () => words[Math.floor(Math.random() * words.length)]).join(' ');
const markets = Array.from({ length: 100 }, (_, i) => ({
  canonical_id: crypto.randomUUID(),
  symbol: `KXBTC-26MAR${i}-T${Math.floor(Math.random() * 1e6)}`,
  source: 'kalshi',
  question: `${sentence()}?`,
  opens_at: Date.UTC(2026, 0, 1) + Math.floor(Math.random() * 90) * dayMs,
  history: [{ views: ['matched'], category: 'crypto', is_active: true, closes_at: null, outcome: null }],
}));

const pages: Readonly<Record<string, Buffer>> = {
  '300 ticks': Buffer.from(JSON.stringify({ ticks: rows(300) })),
  '10,000 ticks': Buffer.from(JSON.stringify({ ticks: rows(10_000) })),
  '100 markets': Buffer.from(JSON.stringify({ markets })),
};

const brotli = (quality: number) => (bytes: Buffer) =>
  brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_LGWIN]: 19,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  });
const zstd = (level: number) => (bytes: Buffer) =>
  zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level }, pledgedSrcSize: bytes.length });
const coders: readonly (readonly [name: string, code: (bytes: Buffer) => Buffer])[] = [
  ...[1, 2, 3, 5].map((level) => [`zstd ${level}`, zstd(level)] as const),
  ...[1, 3, 4, 5].map((quality) => [`br ${quality}`, brotli(quality)] as const),
  ...[1, 3, 4, 6].map((level) => [`gzip ${level}`, (bytes: Buffer) => gzipSync(bytes, { level })] as const),
];

for (const [page, bytes] of Object.entries(pages)) {
  const rounds = Math.ceil(20e6 / bytes.length / 4);
  for (const [name, code] of coders) {
    const coded = code(bytes);
    const before = process.cpuUsage();
    for (let round = 0; round < rounds; round++) code(bytes);
    const { user, system } = process.cpuUsage(before);
    const ms = (user + system) / 1000 / rounds / (bytes.length / 1e6);
    console.log(`${page}, ${name}: ${ms.toFixed(2)} ms/MB, ratio ${(bytes.length / coded.length).toFixed(2)}`);
  }
}
