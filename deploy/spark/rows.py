"""Rows of CSV and Parquet, read as `oddslake import` reads them, with the columns of an observation.

The rules are those of src/collector/import: import-rows.ts, import-quotes.ts, import-trades.ts and trade-ids.ts.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

import pages

# What rows of a file say besides symbol and t. The first ones are needed.
FACTS = {
    "ticks": ["p"],
    "quotes": ["bid", "ask", "bid_size", "ask_size"],
    "trades": ["price", "size", "block", "trade_id", "aggressor", "tx_hash", "price_text", "size_text"],
}
NEEDED = {"ticks": 1, "quotes": 1, "trades": 2}

# What an observation says, in the order in which observations are compared. A text that was read as a number is kept if the number
# may have lost digits (price_raw, size_raw). A trade without an identifier has its number among the equal rows of its file (copy).
VALUES = {
    "ticks": FACTS["ticks"],
    "quotes": FACTS["quotes"],
    "trades": [*FACTS["trades"], "price_raw", "size_raw", "copy"],
}

PRICES = ("p", "bid", "ask", "price")

# How far the clock of a server may be ahead, as poll.future_skew_seconds.
FUTURE_SKEW_MS = 300_000

# What \s of a pattern is in JavaScript.
SPACE = "[\\s\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff]"
NUMBER = f"^{SPACE}*([+-]?(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?){SPACE}*$"
# Digits of parts of a millisecond would be lost in a double.
TIME = f"^{SPACE}*(-?[0-9]{{1,22}})(?:\\.0{{1,12}})?{SPACE}*$"
NOTHING = f"(?i)^{SPACE}*(?:nan)?{SPACE}*$"
# A long number that a program wrote as a floating-point number.
ROUNDED = "(?i)^[0-9]\\.[0-9]+e\\+[0-9]+$"

# Longer texts may have more digits than a double.
EXACT_CHARS = 15
TEXT_CHARS_MAX = 256
MADE_ID_CHARS_MAX = TEXT_CHARS_MAX + 128

SIDES = {"buy": ["buy", "b", "yes"], "sell": ["sell", "s", "no"], None: ["unknown", "none"]}
BLOCKS = {1: ["true", "t", "yes", "1"], 0: ["false", "f", "no", "0"]}

INTEGERS = ("tinyint", "smallint", "int", "bigint")

# A line of a CSV file that has not as many fields as the header, or bytes that are not UTF-8; null for others.
BAD_LINE = "__bad_line"
# What a decoder writes in place of bytes that are not UTF-8.
REPLACEMENT = "\ufffd"


def read_rows(spark: SparkSession, inputs: list[str], kind: str) -> DataFrame:
    """The rows of files, with the columns __path, __written (epoch ms), __place (their order within a file) and BAD_LINE."""
    if kind == "parquet":
        # Files may lack columns that others have.
        rows = spark.read.options(recursiveFileLookup="true", mergeSchema="true").parquet(*inputs)
        rows = rows.withColumn(BAD_LINE, F.lit(None).cast("string"))
        place = F.col("_metadata.row_index")
    else:
        # A file that spans lines is not split, so that its rows have the order of the file. Its header must be that of the others:
        # otherwise Spark would read columns by their position.
        options = {"header": "true", "multiLine": "true", "escape": '"', "recursiveFileLookup": "true", "enforceSchema": "false"}
        names = spark.read.options(**options).csv(inputs).columns
        fields = [T.StructField(name, T.StringType()) for name in (*names, BAD_LINE)]
        checked = {"columnNameOfCorruptRecord": BAD_LINE, "columnPruning": "false"}
        rows = spark.read.options(**options, **checked).schema(T.StructType(fields)).csv(inputs)
        broken = F.greatest(*(F.coalesce(quote(name).contains(REPLACEMENT), F.lit(False)) for name in names), F.lit(False))
        rows = rows.withColumn(BAD_LINE, F.coalesce(BAD_LINE, F.when(broken, F.concat_ws(",", *map(quote, names)))))
        place = F.monotonically_increasing_id()
    written = F.unix_millis("_metadata.file_modification_time")
    return rows.select("*", F.col("_metadata.file_path").alias("__path"), written.alias("__written"), place.alias("__place"))


def fold_rows(
    rows: DataFrame,
    dataset: str,
    columns: dict[str, str],
    now_ms: int,
    scale: tuple[float, float] | None = None,
    is_utc: bool = False,
) -> dict[str, DataFrame]:
    """The observations in rows of `read_rows`.

    columns: those of the files with other names.
    is_utc: whether timestamps without a time zone are in UTC; without it they are refused.
    """
    facts = FACTS[dataset]
    named = name_columns(rows, dataset, columns, now_ms)
    if dict(named.dtypes)["t"] == "timestamp_ntz" and not is_utc:
        raise ValueError(f"column {columns.get('t', 't')} has timestamps without a time zone: --tz UTC if they are in UTC")
    judge = judge_trades if dataset == "trades" else judge_prices
    typed = add_numbers(named, ["t", *(name for name in facts if name not in TEXTS)])
    values, flaws = judge(typed, dataset, scale)
    bad_line = F.when(F.col(BAD_LINE).isNotNull(), "the line has not as many fields as the header, or is not UTF-8")
    reason = F.coalesce(bad_line, *find_key_flaws(now_ms + FUTURE_SKEW_MS), *flaws)
    judged = typed.withColumns({f"{name}_value": value for name, value in values.items()})
    judged = judged.withColumn("reason", reason).persist()
    ok = judged.where("reason is null").select(
        *("path", "seen", "place", "symbol", F.col("t_number").cast("long").alias("t")),
        *(F.col(f"{name}_value").alias(name) for name in values),
    )
    counted = number_copies(ok) if dataset == "trades" else mark_counted(ok, VALUES[dataset])
    spark = rows.sparkSession
    return {
        "observations": counted.select("symbol", "seen", "t", *VALUES[dataset], "counts"),
        "coverage": spark.createDataFrame([], "symbol string, t_from bigint, t_to bigint, seen bigint, evidence string"),
        "rejected": judged.where("reason is not null").select(
            "path", "symbol", "seen", "reason", F.coalesce(BAD_LINE, F.to_json(F.struct("symbol", "t", *facts))).alias("raw")
        ),
        "unreadable": spark.createDataFrame([], "path string, reason string"),
    }


# Facts that are read as text, whatever their type.
TEXTS = ("block", "trade_id", "aggressor", "tx_hash", "price_text", "size_text")


def name_columns(rows: DataFrame, dataset: str, columns: dict[str, str], now_ms: int) -> DataFrame:
    """The columns that rows of a dataset may have, under their names. Those that the files do not have are null."""
    facts = FACTS[dataset]
    given = [name for name in rows.columns if not name.startswith("__")]
    own = {name: find_column(given, columns.get(name, name)) for name in ("symbol", "t", *facts)}
    has = {name: own[name] is not None for name in own}
    missing = [columns.get(name, name) for name in ("symbol", "t", *facts[: NEEDED[dataset]], *columns) if not has.get(name)]
    if missing:
        raise ValueError(f"the files have no column {', '.join(dict.fromkeys(missing))}: they have {', '.join(given)}")
    types = dict(rows.dtypes)
    picked = []
    for name in own:
        kind = types[own[name]] if has[name] else None
        is_text = name in ("symbol", *TEXTS)
        # A float has too few digits for a time.
        numbers = (*INTEGERS, "double", "string") if name == "t" else (*INTEGERS, "float", "double", "string")
        is_number = kind in numbers or (kind or "").startswith("decimal")
        is_time = name == "t" and (kind or "").startswith("timestamp")
        if kind is None:
            column = F.lit(None).cast("string" if is_text else "double")
        elif is_text:
            # The text of a floating-point number depends on the program that writes it.
            if kind not in (*INTEGERS, "string") and (name, kind) != ("block", "boolean"):
                raise ValueError(f"column {own[name]} is {kind}, which cannot be {name}: cast it to a string")
            column = quote(own[name]).cast("string")
        elif is_number or is_time:
            column = quote(own[name])
        else:
            raise ValueError(f"column {own[name]} is {kind}, which cannot be {name}")
        picked.append(column.alias(name))
    seen = F.least("__written", F.lit(now_ms))
    return rows.select(F.col("__path").alias("path"), seen.alias("seen"), F.col("__place").alias("place"), BAD_LINE, *picked)


def find_column(names: list[str], wanted: str) -> str | None:
    """The column of this name or, if there is exactly one, that of this name in another case or with spaces around it."""
    if wanted in names:
        return wanted
    like = [name for name in names if name.strip().lower() == wanted.lower()]
    return like[0] if len(like) == 1 else None


def quote(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def add_numbers(rows: DataFrame, names: list[str]) -> DataFrame:
    """Adds NAME_number to each column: a double, or null if the value is no number."""
    types = dict(rows.dtypes)
    for name in names:
        number = f"{name}_number"
        if types[name].startswith("timestamp"):
            rows = rows.withColumn(number, F.unix_micros(F.col(name).cast("timestamp")) / 1000)
        elif types[name] == "string":
            rows = rows.withColumn(number, F.regexp_extract(name, TIME if name == "t" else NUMBER, 1))
            rows = rows.withColumn(number, F.expr(f"try_cast({number} as double)"))
        else:
            rows = rows.withColumn(number, F.col(name).cast("double"))
    return rows


def find_key_flaws(future_ms: int) -> list[Column]:
    """Why the symbol or the time of a row cannot be used. Each is null if there is no such reason."""
    t = F.col("t_number")
    is_name = ~F.col("symbol").rlike("^\\ufeff|\\x00|" + ROUNDED)
    return [
        F.when(F.isnull("symbol") | (F.col("symbol") == ""), "symbol is missing"),
        F.when(~is_name, "symbol is not text"),
        F.when(F.isnull("t"), "t is missing"),
        F.when(~is_finite(t), "t is not a number"),
        F.when(t != F.floor(t), "t is not a whole number of milliseconds"),
        F.when((t < pages.TIME_MIN) | (t >= pages.TIME_END), "t is outside the years 2000 to 2100"),
        F.when(t > future_ms, "t is in the future"),
    ]


def is_finite(number: Column) -> Column:
    return ~F.isnull(number) & ~F.isnan(number) & (F.abs(number) != float("inf"))


def is_missing(rows: DataFrame, name: str) -> Column:
    """Programs write what is missing as nothing, null or NaN."""
    kind = dict(rows.dtypes)[name]
    if kind == "string":
        return F.isnull(name) | F.col(name).rlike(NOTHING)
    return F.isnull(name) | F.isnan(name) if kind in ("float", "double") else F.isnull(name)


def apply_scale(name: str, scale: tuple[float, float] | None) -> Column:
    """A number as it is stored. -0 becomes 0."""
    factor, divisor = scale or (1.0, 1.0)
    return F.col(f"{name}_number") * F.lit(factor) / F.lit(divisor) + 0.0


def judge_prices(rows: DataFrame, dataset: str, scale) -> tuple[dict[str, Column], list[Column]]:
    """The values of ticks and quotes, and their flaws."""
    names = FACTS[dataset]
    values, flaws = {}, []
    for name in names:
        # A tick has a price. Quotes may lack numbers.
        missing = F.isnull(name) if dataset == "ticks" else is_missing(rows, name)
        is_size = name.endswith("_size")
        scaled = apply_scale(name, None if is_size else scale)
        values[name] = F.when(~missing, scaled)
        if dataset == "ticks":
            flaws.append(F.when(missing, f"{name} is missing"))
        flaws.append(F.when(~missing & ~is_finite(scaled), f"{name} is not a number"))
        if is_size:
            flaws.append(F.when(~missing & (F.col(f"{name}_number") < 0), f"{name} is negative"))
    if dataset == "quotes":
        flaws.append(F.when(is_missing(rows, "bid") & is_missing(rows, "ask"), "bid and ask are missing"))
    return values, flaws


def judge_trades(rows: DataFrame, dataset: str, scale) -> tuple[dict[str, Column], list[Column]]:
    """The values of trades, and their flaws."""
    types = dict(rows.dtypes)
    text = {name: F.when(~is_missing(rows, name), F.col(name)) for name in TEXTS}
    # A text that is scaled is no price.
    exact = {name: text[f"{name}_text"] if name == "size" or scale is None else F.lit(None) for name in ("price", "size")}
    raw = {
        name: F.when(F.length(name) > EXACT_CHARS, F.col(name))
        if types[name] == "string" and (name == "size" or scale is None)
        else F.lit(None)
        for name in ("price", "size")
    }
    side = F.lower(F.regexp_replace("aggressor", f"^{SPACE}+|{SPACE}+$", ""))
    block = F.lower(F.regexp_replace("block", f"^{SPACE}+|{SPACE}+$", ""))
    values = {
        "price": apply_scale("price", scale),
        "size": apply_scale("size", None),
        "block": pick(block, BLOCKS).cast("int"),
        "trade_id": text["trade_id"],
        "aggressor": pick(side, SIDES).cast("string"),
        "tx_hash": text["tx_hash"],
        **{f"{name}_text": exact[name].cast("string") for name in ("price", "size")},
        **{f"{name}_raw": raw[name].cast("string") for name in ("price", "size")},
    }
    flaws = []
    for name in ("price", "size"):
        flaws.append(F.when(is_missing(rows, name), f"{name} is missing"))
        flaws.append(F.when(~is_finite(values[name]), f"{name} is not a number"))
    flaws.append(F.when(F.col("size_number") < 0, "size is negative"))
    flaws.append(F.when(F.col("size_number") == 0, "size is zero"))
    flaws.append(F.when(~F.isnull(text["aggressor"]) & ~is_among(side, SIDES), "aggressor is none of buy, sell, b, s, yes, no, unknown"))
    flaws.append(F.when(~F.isnull(text["block"]) & ~is_among(block, BLOCKS), "block is neither true nor false"))
    for name in ("trade_id", "tx_hash"):
        units = F.octet_length(F.encode(name, "UTF-16BE")) / 2
        is_made = F.col(name).startswith("=") if name == "trade_id" else F.lit(False)
        chars_max = F.when(is_made, MADE_ID_CHARS_MAX).otherwise(TEXT_CHARS_MAX)
        flaws.append(F.when(~F.isnull(text[name]) & (units > chars_max), f"{name} is too long"))
        flaws.append(F.when(F.col(name).rlike(ROUNDED), f"{name} is a rounded number: its last digits are lost"))
    return values, flaws


def pick(text: Column, names: dict) -> Column:
    """The value that a text stands for; null if none."""
    return F.coalesce(*(F.when(text.isin(texts), F.lit(value)) for value, texts in names.items()))


def is_among(text: Column, names: dict) -> Column:
    return text.isin([one for texts in names.values() for one in texts])


def number_copies(rows: DataFrame) -> DataFrame:
    """Numbers equal trades of a file that have no identifier. Each version of a trade counts, whatever their order in the file."""
    equal = Window.partitionBy("path", "symbol", "t", "price", "size", "block", "aggressor", "tx_hash").orderBy("place")
    with_ids = rows.where("trade_id is not null").withColumn("copy", F.lit(None).cast("int"))
    others = rows.where("trade_id is null").withColumn("copy", F.row_number().over(equal) - 1)
    return with_ids.unionByName(others).withColumn("counts", F.lit(True))


def by_value(values: list[str]) -> list[Column]:
    """The order in which contradicting rows count: the greatest first; what is missing is less than every number."""
    return [F.col(name).desc_nulls_last() for name in values]


def mark_counted(rows: DataFrame, values: list[str]) -> DataFrame:
    """Which row of each file, symbol and time counts: see pages.order_ticks."""
    in_file = Window.partitionBy("path", "symbol").orderBy("place")
    of_file = Window.partitionBy("path", "symbol")
    steps = rows.withColumn("step", F.col("t") - F.lag("t").over(in_file))
    # A symbol with one row has no step.
    falls = F.coalesce(F.min("step").over(of_file) < 0, F.lit(False))
    rises = F.coalesce(F.max("step").over(of_file) > 0, F.lit(False))
    directed = steps.withColumn("falls", falls).withColumn("rises", rises)
    # Rows in no order are compared by what they say.
    turn = F.when(F.col("falls") & F.col("rises"), 0).when(F.col("falls"), -F.col("place")).otherwise(F.col("place"))
    of_time = Window.partitionBy("path", "symbol", "t").orderBy(F.col("turn").desc(), *by_value(values))
    return directed.withColumn("turn", turn).withColumn("counts", F.row_number().over(of_time) == 1)


def parse_columns(text: str | None) -> dict[str, str]:
    known = {"symbol", "t", *(name for names in FACTS.values() for name in names)}
    columns = {}
    for pair in text.split(",") if text else []:
        name, equals, own = pair.partition("=")
        if not equals or name not in known or own == "" or name in columns:
            raise ValueError(f"--columns {text}: expected pairs such as t=ts,symbol=ticker,p=price, each name once")
        columns[name] = own
    return columns


def parse_scale(text: str | None) -> tuple[float, float] | None:
    """Factor and divisor of a decimal number such as 0.01, as the importer has them."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d*)(?:\.(\d+))?", text)
    digits = (found[1] + (found[2] or "")) if found else ""
    if len(digits) > 15 or not re.search("[1-9]", digits):
        raise ValueError(f"--price-scale {text}: expected a decimal number above 0, such as 0.01 for cents")
    return float(digits), float(10 ** len(found[2] or ""))
