import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import okhttp3.Call;
import okhttp3.Interceptor;
import okhttp3.Request;
import okhttp3.Response;
import oddslake.client.ApiClient;
import oddslake.client.ApiException;
import oddslake.client.api.ExportApi;
import oddslake.client.api.HistoricalApi;
import oddslake.client.api.OperationsApi;
import oddslake.client.api.RealtimeApi;
import oddslake.client.api.UsersApi;
import oddslake.client.model.*;

/**
 * Calls every operation of the service through the client that openapi-generator makes of its document, and appends one line of
 * JSON for each response to the file in ODDSLAKE_CALLS. The client rejects bodies that are not of the documented schema.
 */
public final class Calls {
  private static final Path called = Path.of(System.getenv("ODDSLAKE_CALLS"));

  private static ApiClient clientWith(String credential) {
    ApiClient client = new ApiClient();
    client.setBasePath(System.getenv("ODDSLAKE_URL"));
    client.addDefaultHeader("authorization", "Bearer " + credential);
    // On a busy machine the first backtest takes longer than the 10 s after which the client gives up.
    client.setHttpClient(client.getHttpClient().newBuilder().readTimeout(2, TimeUnit.MINUTES).addInterceptor(Calls::record).build());
    return client;
  }

  /** Writes down method, path and status of a response, before its body is read: the body may have no end. */
  private static Response record(Interceptor.Chain chain) throws IOException {
    Request request = chain.request();
    Response response = chain.proceed(request);
    JsonObject line = new JsonObject();
    line.addProperty("method", request.method().toLowerCase());
    line.addProperty("path", request.url().encodedPath());
    line.addProperty("status", response.code());
    Files.writeString(called, new Gson().toJson(line) + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    return response;
  }

  /** Reads the first line of a response and cancels the request, as a client of an endless stream does. */
  private static String readFirstLine(Call call) throws IOException {
    call.timeout().timeout(30, TimeUnit.SECONDS);
    try (Response response = call.execute()) {
      require(response.isSuccessful(), "a stream");
      String line = response.body().source().readUtf8LineStrict();
      call.cancel();
      return line;
    }
  }

  private static void require(boolean holds, String what) {
    if (!holds) throw new IllegalStateException("expected " + what);
  }

  private static boolean isPending(String state) {
    return state.equals("waiting") || state.equals("running");
  }

  public static void main(String[] args) throws Exception {
    ApiClient market = clientWith(System.getenv("ODDSLAKE_KEY"));
    ApiClient user = clientWith(System.getenv("ODDSLAKE_TOKEN"));
    callOperations(new OperationsApi(market), new UsersApi(market));
    HistoricalMarket traded = callMarketData(new RealtimeApi(market), new HistoricalApi(market));
    callExports(new ExportApi(market));
    callObjects(new UsersApi(user), traded.getSymbol());
    try {
      new RealtimeApi(market).getTicks("no such symbol", null, null, null);
      throw new IllegalStateException("expected a problem");
    } catch (ApiException error) {
      Problem problem = Problem.fromJson(error.getResponseBody());
      require(problem.getCode().getValue().equals("unknown_symbol"), "the code of the problem");
      require(problem.getErrors().get(0).getName().equals("symbol"), "the parameter of the problem");
    }
  }

  private static void callOperations(OperationsApi operations, UsersApi users) throws Exception {
    require(operations.getOpenApiDocument().getOpenapi().equals("3.1.0"), "OpenAPI 3.1");
    require(operations.getHealth().getStatus().getValue().equals("ok"), "health");
    require(operations.getReadiness().getGeneration() > 0, "a generation");
    require(operations.getMetrics().contains("# TYPE"), "metrics");
    require(readFirstLine(operations.getMetricsCall(null)).startsWith("# "), "the first line of the metrics");
    require(operations.getCatalogue().startsWith("<!doctype html>"), "the catalogue");
    require(!operations.getCatalogueFile("any", "main.js").isEmpty(), "a file of the catalogue");
    require(users.getCredential().getKey().getName().equals("test"), "the name of the key");
  }

  /** Returns a market with ticks and order books. */
  private static HistoricalMarket callMarketData(RealtimeApi realtime, HistoricalApi historical) throws Exception {
    require(!realtime.listMarkets(null, null, 5L).getMarkets().get(0).getCanonicalId().isEmpty(), "a market");
    Set<String> withBooks = historical.listHistoricalOrderBooks(null, null, null, null, null, null, null).getOrderbooks().stream()
        .map(OrderBookSnapshot::getSymbol).collect(Collectors.toSet());
    HistoricalMarket traded =
        historical.listHistoricalMarkets(null, null, null, null, null, null, null, null, null, null, null, null, null).getMarkets().stream()
            .filter(known -> withBooks.contains(known.getSymbol()) && known.getTicks() > 100).findFirst().orElseThrow();
    String symbol = traded.getSymbol();
    require(historical.listSymbols(symbol, null, null, null, null, null, null).getSymbols().get(0).getSymbol().equals(symbol), "symbols");
    TicksResponse ticks = realtime.getTicks(symbol, null, null, 10L);
    require(ticks.getCount() > 0 && ticks.getCount() == ticks.getTicks().size(), "ticks");
    require(ticks.getTicks().stream().allMatch(tick -> tick.getT() > 0 && tick.getP().signum() >= 0), "times and prices");
    require(realtime.streamTicks(List.of(symbol), 1, null).contains("event: ready"), "a stream");
    require(realtime.getOrderBook(symbol).getBids().get(0).getPrice().signum() > 0, "an order book");
    require(!traded.getHistory().isEmpty(), "the history of a market");
    HistoricalTicksResponse page = historical.listHistoricalTicks(List.of(symbol), null, null, 3L, null, null, null);
    require(page.getTicks().size() == 3 && page.getNextCursor() != null, "a page of ticks");
    List<Candle> candles = historical.listHistoricalCandles("1h", List.of(symbol), null, null, null, null, null, null).getCandles();
    require(!candles.isEmpty() && candles.stream().allMatch(one -> one.getLow().compareTo(one.getHigh()) <= 0), "candles");
    List<Quote> quotes = historical.listHistoricalQuotes(null, null, null, null, null, null, null).getQuotes();
    require(quotes.get(0).getBid().compareTo(quotes.get(0).getAsk()) < 0, "a quote");
    require(quotes.get(1).getBid() == null && quotes.get(1).getAsk().signum() > 0, "a quote without a bid");
    List<Trade> trades = historical.listHistoricalTrades(null, null, null, null, null, null, null).getTrades();
    require(trades.get(0).getTradeId().equals("9") && trades.get(1).getTradeId().equals("10"), "trades");
    require(!trades.get(0).getBlock() && trades.get(0).getAggressor().equals("buy"), "a trade with all facts");
    require(trades.get(1).getBlock() == null && trades.get(1).getAggressor() == null, "a trade of unknown facts");
    require(trades.get(1).getSizeText() != null && trades.get(0).getSizeText() == null, "the text of a size");
    require(
        historical.listHistoricalConflicts(null, null, null, null, null, null, null).getConflicts().stream()
            .allMatch(one -> one.getKept().compareTo(one.getDropped()) != 0),
        "conflicts");
    List<CoverageWindow> coverage =
        historical.listHistoricalCoverage(null, List.of(symbol), null, null, null, null, null, null).getCoverage();
    require(!coverage.isEmpty() && coverage.stream().allMatch(one -> one.gettFrom() < one.gettTo()), "coverage");
    return traded;
  }

  private static void callExports(ExportApi exports) throws Exception {
    Manifest manifest = exports.getManifest(null, null, null, null, null, null, null).getManifest();
    require(!manifest.getDatasets().get("ticks").getFiles().isEmpty(), "files of a manifest");
    Changes changes = exports.getManifest(0L, null, null, null, null, null, null).getChanges();
    ChangedFile changed = changes.getFiles().stream()
        .filter(one -> one.getDataset() == ChangedFile.DatasetEnum.TICKS).findFirst().orElseThrow();
    String[] parts = changed.getUrl().split("/");
    String part = parts[parts.length - 1], date = parts[parts.length - 2];
    long size = exports.getPublishedFile("ticks", date, part, null, null, null, null, null, null).length();
    require(size == changed.getBytes(), "the bytes of a published file");
    require(exports.getPublishedFile("ticks", date, part, "bytes=0-3", null, null, null, null, null).length() == 4, "a range");
    require(exports.getSymbolsFile("part-00.parquet", null, null, null, null, null, null).length() > 0, "symbols");
  }

  private static void callObjects(UsersApi users, String symbol) throws Exception {
    StrategyDefinition definition = StrategyDefinition.fromJson("""
        {"parameters": {"low": 0.4}, "rules": [{"side": "yes", "exit": {"measure": "price", "above": 0.6}, "size": {"contracts": 1},
          "entry": {"all": [{"measure": "price", "below": {"parameter": "low"}},
            {"any": [{"measure": "moving_average", "window_ms": 3600000, "above": 0}, {"measure": "category", "not_in": ["x"]}]}]}}]}
        """);
    // Through the classes and back: conditions are recursive.
    List<Condition> entry = definition.getRules().get(0).getEntry().getAllCondition().getAll();
    require(entry.get(0).getMeasureCondition().getBelow().getParameterValue().getParameter().equals("low"), "a parameter");
    List<Condition> any = entry.get(1).getAnyCondition().getAny();
    require(any.get(0).getWindowCondition().getWindowMs() != null, "a window");
    require(any.get(1).getCategoryCondition().getNotIn().equals(List.of("x")), "a category");
    Strategy strategy = users.createStrategy(new StrategyRequest().name("java dips").definition(definition), null);
    require(users.getStrategy(strategy.getId()).getDefinition().getRules().equals(definition.getRules()), "the same rules");
    require(!users.listStrategies(null, null, null).getStrategies().isEmpty(), "strategies");

    Bot bot = users.createBot(
        new BotRequest().name("java bot").strategy(new BotStrategyRequest().name("java dips")).addSymbolsItem(symbol)
            .mode(BotRequest.ModeEnum.PAPER),
        null);
    require(users.getBot(bot.getId()).getSymbols().equals(List.of(symbol)), "a bot");
    require(!users.listBots(null, null).getBots().isEmpty(), "bots");
    Bot paused = users.updateBot(bot.getId(), new BotChange().status(BotChange.StatusEnum.PAUSED));
    require(paused.getStatus() == Bot.StatusEnum.PAUSED, "a paused bot");
    users.deleteBot(bot.getId());

    BacktestRequest request = new BacktestRequest().entryExecutable(new EntryExecutable().name("java dips"))
        .objective(BacktestRequest.ObjectiveEnum.TOTAL_PNL).addSymbolsItem(symbol);
    require(users.runBacktest(request, null).getSummary().getTicks() > 0, "a result");
    // Methods of this generator return the type of the first success, 200: for the 202, the caller gives the type.
    Call save = users.runBacktestCall(request.save(true), null, null);
    Backtest saved = users.getApiClient().<Backtest>execute(save, Backtest.class).getData();
    String id = saved.getId();
    while (isPending(saved.getState().getValue())) {
      Thread.sleep(200);
      saved = users.getBacktest(id);
    }
    require(users.getBacktest(id).getResult().getSummary().getTicks() > 0, "a saved result");
    BacktestTradesResponse trades =
        users.listBacktestTrades(id, 1L, null, null, null, null, null, null, null, null, null);
    require(trades.getTotal().equals(saved.getTradesFile().getRows()), "the number of trades");
    require(trades.getTrades().get(0).getSymbol().equals(symbol), "a trade");
    require(!users.listBacktests(null, null).getBacktests().isEmpty(), "backtests");
    users.deleteBacktest(id);
    users.deleteStrategy(strategy.getId());
  }
}
