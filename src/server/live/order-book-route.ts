import { readSymbol } from '../../archive/journal/symbol-store.ts';
import { openOrderBookReader } from '../../archive/read/read-order-book.ts';
import { paths } from '../../contract/paths.ts';
import { OrderbookQuery, OrderbookResponse } from '../../contract/service.ts';
import { setDataTime } from '../http/data-time.ts';
import { createUnknownSymbolError, ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { isVisitor } from '../workspace/owner.ts';

/** `/api/v1/orderbook`: the latest snapshot of a symbol. */
export function registerOrderBookRoutes(app: App, context: ServiceContext): void {
  const { archive, current, files, clock, live } = context;
  const books = openOrderBookReader(archive, current, files);
  app.get(
    paths.orderbook,
    {
      config: { isCatalogue: true, data: { scope: 'read', datasets: ['orderbooks'] } },
      schema: {
        operationId: 'getOrderBook',
        summary: 'The latest order book of a symbol',
        description:
          'The snapshot with the latest time. 404 if the archive does not know the symbol, or has no order book for ' +
          'it. `data_time` is the time of the last poll that returned one; the archive has no later information.',
        tags: ['realtime'],
        querystring: OrderbookQuery,
        response: { 200: OrderbookResponse },
      },
    },
    async (request, reply) => {
      const { symbol } = request.query;
      let book = await books.readLatest(symbol);
      if (live && !isVisitor(request.principal)) {
        await live.refreshOrderBook(symbol, book?.fetchedAt ?? null);
        book = await books.readLatest(symbol);
      }
      if (book === null) {
        if (readSymbol(archive.state.db, symbol) === undefined) throw createUnknownSymbolError();
        throw new ProblemError(404, 'The archive has no order book for this symbol.');
      }
      const { t, bids, asks, fetchedAt } = book;
      setDataTime(reply, fetchedAt);
      return { symbol, t, bids: [...bids], asks: [...asks], generated_at: clock.nowMs(), data_time: fetchedAt };
    },
  );
}
