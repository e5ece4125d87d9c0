"""The documented columns, types and keys of the archive's files. An independent copy, so that changes are noticed."""

from dataclasses import dataclass

CANDLES = (
    "symbol:string t:timestamp open:double high:double low:double close:double ticks:int32 covered:double"
    " bid:double? ask:double? volume:double? trades:int32? vwap:double?"
)


@dataclass(frozen=True)
class Dataset:
    """Columns as (name, type, may be null), and the columns with the first and the last time of a row.

    `shift`, in milliseconds, is added to the last time: -1 if that column is an excluded end.
    """

    columns: tuple[tuple[str, str, bool], ...]
    key: tuple[str, ...]
    first: str
    last: str
    shift: int = 0
    has_days: bool = True
    # The columns by which rows are sorted, if not by the key.
    sorted_by: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.columns]

    @property
    def order(self) -> tuple[str, ...]:
        return self.sorted_by or self.key


def dataset(
    columns: str, key: str, first: str, last: str, shift: int = 0, has_days: bool = True, sorted_by: str = ""
) -> Dataset:
    parsed = (column.split(":") for column in columns.split())
    typed = tuple((name, kind.rstrip("?"), kind.endswith("?")) for name, kind in parsed)
    return Dataset(typed, tuple(key.split()), first, last, shift, has_days, tuple(sorted_by.split()))


DATASETS = {
    "ticks": dataset("symbol:string t:timestamp p:double", "symbol t", "t", "t"),
    "symbols": dataset(
        "symbol:string canonical_id:string? source:string? question:string? category:string? is_active:boolean?"
        " opens_at:timestamp? closes_at:timestamp? resolved_at:timestamp? outcome:double? first_seen:timestamp"
        " last_seen:timestamp first_tick:timestamp? last_tick:timestamp? ticks:int64"
        " outcome_source:string? event:string? exclusive:boolean? strike_low:double? strike_high:double?"
        " expected_end:timestamp? rules_sha256:string? fee_schedule:string? tick_size:double?",
        *("symbol", "first_seen", "last_seen"),
        has_days=False,
    ),
    "markets": dataset(
        "canonical_id:string symbol:string? source:string? views:strings category:string? confidence:double?"
        " is_active:boolean? question:string? closes_at:timestamp? resolved_at:timestamp? outcome:double?"
        " first_seen:timestamp last_seen:timestamp extra:string?"
        " outcome_source:string? event:string? exclusive:boolean? strike_low:double? strike_high:double?"
        " expected_end:timestamp? rules:string? rules_sha256:string? fee_schedule:string? tick_size:double?",
        *("canonical_id symbol first_seen", "first_seen", "last_seen"),
    ),
    "orderbooks": dataset(
        "symbol:string t:timestamp side:string level:int32 price:double quantity:double",
        *("symbol t side level", "t", "t"),
    ),
    "quotes": dataset(
        "symbol:string t:timestamp bid:double? ask:double? bid_size:double? ask_size:double?"
        " event_at:timestamp_us? received_at:timestamp_us?",
        *("symbol t", "t", "t"),
    ),
    "trades": dataset(
        "symbol:string t:timestamp trade_id:string price:double size:double aggressor:string? block:boolean?"
        " tx_hash:string? seq:int32 price_text:string? size_text:string?"
        " event_at:timestamp_us? received_at:timestamp_us?",
        *("symbol trade_id", "t", "t"),
        sorted_by="symbol t seq",
    ),
    "candles_1h": dataset(CANDLES, "symbol t", "t", "t"),
    "candles_1d": dataset(CANDLES, "symbol t", "t", "t"),
    "coverage": dataset(
        "dataset:string symbol:string t_from:timestamp t_to:timestamp ticks:int32 fetched_at:timestamp"
        " origin:string evidence:string grain_ms:int64?",
        *("dataset symbol t_from", "t_from", "t_to", -1),
    ),
    "conflicts": dataset(
        "symbol:string t:timestamp kept:double dropped:double seen_at:timestamp seq:int32", "symbol t seen_at seq", "t", "t"
    ),
    "quote_conflicts": dataset(
        "symbol:string t:timestamp seen_at:timestamp seq:int32 bid:double? ask:double? bid_size:double? ask_size:double?",
        *("symbol t seen_at seq", "t", "t"),
    ),
    "trade_conflicts": dataset(
        "symbol:string t:timestamp seen_at:timestamp seq:int32 trade_id:string price:double size:double"
        " aggressor:string? block:boolean? tx_hash:string? price_text:string? size_text:string?",
        *("symbol t seen_at seq", "t", "t"),
    ),
}
