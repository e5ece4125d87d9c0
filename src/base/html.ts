/** HTML that is already escaped. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type HtmlValue = string | number | Html | readonly Html[];

const htmlEntities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => htmlEntities[c]!);

/** Builds HTML and escapes every value that is not HTML. Safe for text and for quoted attributes. */
export const html = (strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html =>
  new Html(strings.map((text, i) => text + (i < values.length ? renderValue(values[i]!) : '')).join(''));

function renderValue(value: HtmlValue): string {
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(({ text }) => text).join('');
  return escapeHtml(String(value));
}

/** CSS variables with the light and dark colors of all pages. */
export const palette = `:root {
  color-scheme: light dark;
  --paper: #fcfcfb;
  --panel: #f4f5f4;
  --text: #1c2326;
  --muted: #5a666b;
  --line: #dfe3e3;
  --edge: #8b979b;
  --accent: #1d6680;
  --on-accent: #ffffff;
  --accent-soft: #e1eef2;
  --band: rgb(29 102 128 / 16%);
  --gap: #b4762f;
  --up: #1d6680;
  --down: #a8442f;
  --bad: #9c2f1f;
  --bad-soft: #fbebe7;
  --warn: #fbf0e2;
  --good: #2b7350;
  --good-soft: #e3f1e9;
  --level-0: #f0d9c4;
  --level-1: #d3e6ec;
  --level-2: #a6cedb;
  --level-3: #6faec2;
  --level-5: #175a72;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
}

@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14191b;
    --panel: #1b2225;
    --text: #e4e9ea;
    --muted: #9aa8ad;
    --line: #2c363a;
    --edge: #67767c;
    --accent: #7cc3da;
    --on-accent: #0d1b20;
    --accent-soft: #1e3640;
    --band: rgb(124 195 218 / 20%);
    --gap: #d69a55;
    --up: #7cc3da;
    --down: #e58a70;
    --bad: #f0a08f;
    --bad-soft: #3a211c;
    --warn: #3a2c1a;
    --good: #82cba3;
    --good-soft: #1d362a;
    --level-0: #5b3f27;
    --level-1: #1f3a44;
    --level-2: #28515f;
    --level-3: #357184;
    --level-5: #8fd3e8;
  }
}
`;

/** Style of every page of the service and of every report: colors, and what texts look like. */
export const commonStyle = `${palette}
* { box-sizing: border-box; }
body {
  margin: 0 auto;
  background: var(--paper);
  color: var(--text);
  font: 15px / 1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere;
}
h1, h2, h3, h4, p, dl, dd, ul, figure { margin: 0; padding: 0; }
h1 { margin: 18px 0 12px; font-size: 22px; font-weight: 600; letter-spacing: -0.01em; line-height: 1.25; }
h2 { margin-bottom: 10px; font-size: 19px; font-weight: 600; }
section { margin-top: 32px; }
footer { margin-top: 56px; padding-top: 14px; border-top: 1px solid var(--line); }
.note, figcaption, footer { color: var(--muted); font-size: 13.5px; }
.nowrap { white-space: nowrap; }
`;
