import type { TickColumns } from '../core/tick.ts';

/**
 * How a page is written: `compact` is the documented order without a space; the others are as good JSON:
 * `spaced` is indented, `reordered` has other key orders, `extra` has keys nobody documented, `exponent`
 * writes prices as 4.7e-1.
 */
export const pageLayouts = ['compact', 'spaced', 'reordered', 'extra', 'exponent'] as const;

export type PageLayout = (typeof pageLayouts)[number];

/** An answer to GET /api/v1/ticks; a null `from` or `to` is left out. */
export interface SandboxPage extends TickColumns {
  readonly symbol: string;
  readonly count: number;
  readonly from: number | null;
  readonly to: number | null;
  readonly generatedAt: number;
}

export function pageText(page: SandboxPage, layout: PageLayout): string {
  const { symbol, count, generatedAt } = page;
  const span = { ...(page.from === null ? {} : { from: page.from }), ...(page.to === null ? {} : { to: page.to }) };
  switch (layout) {
    case 'compact':
      return compact(page, String);
    case 'exponent':
      return compact(page, (p) => p.toExponential());
    case 'spaced':
      return JSON.stringify(
        { symbol, ticks: list(page, (t, p) => ({ t, p })), count, ...span, generated_at: generatedAt },
        null,
        2,
      );
    case 'reordered':
      return JSON.stringify({
        generated_at: generatedAt,
        ...span,
        count,
        ticks: list(page, (t, p) => ({ p, t })),
        symbol,
      });
    case 'extra': {
      const ticks = list(page, (t, p) => ({ t, p, v: 3, venue: { id: 'a"]}', t: 1 } }));
      return JSON.stringify({
        symbol,
        ticks,
        count,
        ...span,
        generated_at: generatedAt,
        next: null,
        notes: ['{"t":0}'],
      });
    }
  }
}

function list<Row>(page: TickColumns, row: (t: number, p: number) => Row): Row[] {
  return Array.from(page.t, (t, i) => row(t, page.p[i]!));
}

/** Joined by hand: a page of 5,000 ticks takes a third of what objects and JSON.stringify would. */
function compact(page: SandboxPage, price: (p: number) => string): string {
  const { t, p } = page;
  let text = `{"symbol":${JSON.stringify(page.symbol)},"ticks":[`;
  for (let i = 0; i < t.length; i++) text += `${i === 0 ? '' : ','}{"t":${t[i]},"p":${price(p[i]!)}}`;
  text += `],"count":${page.count}`;
  if (page.from !== null) text += `,"from":${page.from}`;
  if (page.to !== null) text += `,"to":${page.to}`;
  return `${text},"generated_at":${page.generatedAt}}`;
}
