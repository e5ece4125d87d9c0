/** How to load the archive, in Markdown; `day` is one that has ticks, YYYY-MM-DD. Everything runs in its folder. */
export const formatLoadingGuide = (day: string): string => `## Load it

Every example runs in this folder. **Scan afresh after a publish**: a file keeps its name and is replaced whole.

### DuckDB

\`views.sql\` has each dataset as a view, sets the time zone to UTC, and adds what is hard to get right by hand. On the command
line \`duckdb -init views.sql\`, in Python as below; DuckDB 1.5 or newer.

\`\`\`python
import duckdb

duckdb.sql(open("views.sql").read())
duckdb.sql("SELECT symbol, count(*) AS ticks FROM ticks WHERE date = '${day}' GROUP BY symbol").show()
\`\`\`

\`\`\`sql
-- Candles of any step; those of 1h and 1d are published: candles_1h, candles_1d.
SELECT * FROM candles('15m', since := '${day}') LIMIT 10;
-- Every step, the last close carried over: covered tells a quiet step (1) from a hole (0).
SELECT * FROM candles_filled('4h', '${day}', DATE '${day}' + 1) LIMIT 10;
-- Every tick once, with the state of its market as of its time.
SELECT symbol, t, p, category, is_active FROM ticks_with_markets WHERE date = '${day}' LIMIT 10;
\`\`\`

Name the days you want (\`date\`, or both ends in the macros): files of other days are not opened. DuckDB opens a file twice
in one query and can catch a replacement in between; while a publish is under way read with \`oddslake sql\`, which has the
same views and holds on to one generation.

### pandas

\`\`\`python
import pandas as pd

ticks = pd.read_parquet("ticks/", filters=[("date", "=", "${day}")])    # without filters: every day
symbols = pd.read_parquet("symbols/")
candles = pd.read_parquet("candles_1d/")
close = candles.pivot(index="t", columns="symbol", values="close")
\`\`\`

### polars

\`\`\`python
import polars as pl

ticks = pl.scan_parquet("ticks/", hive_partitioning=True)                   # the folder, no glob: date is a column then
day = ticks.filter(pl.col("date") == pl.lit("${day}").str.to_date()).collect()
\`\`\`

### PyArrow

\`\`\`python
import pyarrow.dataset as ds

ticks = ds.dataset("ticks/", partitioning="hive")
day = ticks.to_table(filter=ds.field("date") == "${day}", columns=["symbol", "t", "p"])
\`\`\`

### Spark

\`\`\`python
from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
ticks = spark.read.parquet("ticks/")                                        # date is a partition column
ticks.where("date = '${day}'").groupBy("symbol").count().show()
\`\`\`

### Ticks with their markets

A market has a new row in \`markets\` whenever its state changed, and at least one a day. Joined on the symbol alone every
tick would come back many times; \`BETWEEN first_seen AND last_seen\` loses those between two polls. Join **as of the tick's
time**: the last row that began at or before it. Ticks from before the first poll of their market have none: what it was
then is not known. (Its question, source and canonical_id are in \`symbols\`.) In DuckDB \`ticks_with_markets\` does this and
takes one market of a symbol that stands in several; elsewhere:

\`\`\`python
import pandas as pd
import polars as pl

ticks = pd.read_parquet("ticks/").sort_values("t")
markets = pd.read_parquet("markets/").dropna(subset=["symbol"]).sort_values("first_seen").drop(columns="date")
joined = pd.merge_asof(ticks, markets, left_on="t", right_on="first_seen", by="symbol")

ticks = pl.scan_parquet("ticks/", hive_partitioning=True).sort("t")
markets = pl.scan_parquet("markets/", hive_partitioning=True).sort("first_seen").drop("date")
joined = ticks.join_asof(markets, left_on="t", right_on="first_seen", by="symbol", check_sortedness=False).collect()
\`\`\`
`;
