"""Calls every operation of the service through the client that openapi-python-client makes of its document, in the package
`oddslake_api`, and prints one line of JSON for each response. Every parsed body must have the documented class."""

import importlib
import json
import os
import pkgutil
import time

import oddslake_api.api
from oddslake_api import AuthenticatedClient, models

url = os.environ["ODDSLAKE_URL"]
market = AuthenticatedClient(base_url=url, token=os.environ["ODDSLAKE_KEY"])
user = AuthenticatedClient(base_url=url, token=os.environ["ODDSLAKE_TOKEN"])

modules = {
    name.rsplit(".", 1)[1]: name
    for _, name, is_package in pkgutil.walk_packages(oddslake_api.api.__path__, "oddslake_api.api.")
    if not is_package
}


def call(client, operation, *values, **named):
    response = importlib.import_module(modules[operation]).sync_detailed(*values, client=client, **named)
    print(json.dumps({"operation": operation, "status": int(response.status_code), "parsed": type(response.parsed).__name__}))
    return response.parsed


assert call(market, "get_open_api_document").openapi == "3.1.0"
assert call(market, "get_health").status == "ok"
assert call(market, "get_readiness").generation > 0
assert "# TYPE" in call(market, "get_metrics")
assert call(market, "get_catalogue").startswith("<!doctype html>")
call(market, "get_catalogue_file", "any", "main.js")
assert call(market, "get_credential").key.name == "test"

assert call(market, "list_markets", limit=5).markets[0].canonical_id
with_books = {book.symbol for book in call(market, "list_historical_order_books").orderbooks}
known = call(market, "list_historical_markets").markets
symbol = next(market.symbol for market in known if market.symbol in with_books and market.ticks > 100)
assert call(market, "list_symbols", q=symbol).symbols[0].symbol == symbol
ticks = call(market, "get_ticks", symbol=symbol, limit=10)
assert ticks.count == len(ticks.ticks) > 0 and all(tick.t > 0 and tick.p >= 0 for tick in ticks.ticks)
assert call(market, "stream_ticks", symbol=[symbol], duration_seconds=1).startswith("retry: ")
assert call(market, "get_order_book", symbol=symbol).bids[0].price > 0
assert call(market, "list_historical_markets", symbol=symbol).markets[0].history
assert isinstance(call(market, "list_historical_ticks", symbol=[symbol], limit=3).next_cursor, str)
interval = models.ListHistoricalCandlesInterval("1h")
assert all(candle.low <= candle.high for candle in call(market, "list_historical_candles", symbol=[symbol], interval=interval).candles)
two_sided, one_sided = call(market, "list_historical_quotes").quotes
assert 0 < two_sided.bid < two_sided.ask < 1 and two_sided.ask_size > 0
assert one_sided.bid is None and one_sided.ask > 0 and one_sided.bid_size is None
full, bare = call(market, "list_historical_trades", symbol=[two_sided.symbol]).trades
assert (full.trade_id, full.seq, bare.trade_id, bare.seq) == ("9", 0, "10", 1) and full.t == bare.t
assert full.aggressor == "buy" and full.block is False and full.tx_hash == "0xab" and full.price_text is None
assert bare.aggressor is None and bare.block is None and bare.tx_hash is None
assert bare.price == 0.5 and bare.price_text == "0.50000000000000000001" and bare.size_text == "3.00000000000000000001"
assert all(one.kept != one.dropped for one in call(market, "list_historical_conflicts", limit=5).conflicts)
assert all(window.t_from < window.t_to for window in call(market, "list_historical_coverage", symbol=[symbol]).coverage)

assert call(market, "get_manifest").datasets["ticks"].files
changed = call(market, "get_manifest", since=0).files
file = next(file for file in changed if file.dataset == "ticks")
dataset, date, part = file.url.split("/")[-3:]
published = call(market, "get_published_file", models.GetPublishedFileDataset(dataset), date, part)
assert len(published.payload.read()) == file.bytes_
call(market, "get_symbols_file", "part-00.parquet")

definition = {
    "parameters": {"low": 0.4},
    "rules": [
        {
            "side": "yes",
            "entry": {
                "all": [
                    {"measure": "price", "below": {"parameter": "low"}},
                    {"any": [{"measure": "moving_average", "window_ms": 3_600_000, "above": 0}, {"measure": "category", "not_in": ["x"]}]},
                ]
            },
            "exit": {"measure": "price", "above": 0.6},
            "size": {"contracts": 1},
        }
    ],
}
# Through the classes and back: conditions are recursive.
typed = models.StrategyDefinition.from_dict(definition)
assert isinstance(typed.rules[0].entry, models.AllCondition) and isinstance(typed.rules[0].entry.all_[1], models.AnyCondition)
assert typed.to_dict() == definition
strategy = call(user, "create_strategy", body=models.StrategyRequest(name="python dips", definition=typed))
assert isinstance(call(user, "get_strategy", strategy.id).definition.rules[0].entry, models.AllCondition)
assert call(user, "list_strategies").strategies

bot = call(
    user,
    "create_bot",
    body=models.BotRequest(
        name="python bot", strategy=models.BotStrategyRequest(name="python dips"), symbols=[symbol], mode=models.BotRequestMode.PAPER
    ),
)
assert call(user, "get_bot", bot.id).symbols == [symbol]
assert call(user, "list_bots").bots
assert call(user, "update_bot", bot.id, body=models.BotChange(status=models.BotChangeStatus.PAUSED)).status == "paused"
call(user, "delete_bot", bot.id)


def backtest(save):
    return models.BacktestRequest(
        entry_executable=models.EntryExecutable(name="python dips"),
        objective=models.BacktestRequestObjective.TOTAL_PNL,
        symbols=[symbol],
        save=save,
    )


assert call(user, "run_backtest", body=backtest(False)).summary.ticks > 0
saved = call(user, "run_backtest", body=backtest(True))
while saved.state in ("waiting", "running"):
    time.sleep(0.2)
    saved = call(user, "get_backtest", saved.id)
assert saved.result.summary.ticks > 0
call(user, "get_backtest", saved.id)
trades = call(user, "list_backtest_trades", saved.id, limit=1)
assert trades.total == saved.result.trades.count and trades.trades[0].symbol == symbol
assert call(user, "list_backtests").backtests
call(user, "delete_backtest", saved.id)
call(user, "delete_strategy", strategy.id)

problem = call(market, "get_ticks", symbol="no such symbol")
assert problem.code == "unknown_symbol" and problem.errors[0].name == "symbol"
